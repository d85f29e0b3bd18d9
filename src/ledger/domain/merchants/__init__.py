"""The merchant: whose orders these are, on which settings, and which API keys speak for it. Its stream's id is its own id."""

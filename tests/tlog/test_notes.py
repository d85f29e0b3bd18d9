"""Notes, checkpoints and proofs: the published examples, and forgeries of our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tlog.test_merkle import hashes_of, tree_hash

from ledger.tlog.checkpoints import Checkpoint, open_checkpoint, parse_checkpoint, sign_checkpoint
from ledger.tlog.merkle import inclusion_ranges, leaf_hash
from ledger.tlog.notes import Malformed, Signer, Unverified, open_note, parse_verifier, sign_note
from ledger.tlog.proofs import Proof, encode_proof, parse_proof, verify_proof

# The example of signed-note.
VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = (
    "This is an example message.\n\n— example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
# RFC 8032, section 7.1, tests 1 to 3: private key, public key, message, signature.
RFC_8032 = """
9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60 d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a -
e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b
4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb 3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c 72
92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00
c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7 fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025 af82
6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a
"""
ED25519 = RFC_8032.split()
NAME = "pay.example.com/v1/log/018f0000-0000-7000-8000-000000000001"
SIGNER, OTHER = Signer(NAME, bytes(range(32))), Signer(NAME, bytes(range(1, 33)))
FOREIGN = Signer(NAME[:-1] + "2", bytes(range(32)))


@pytest.mark.parametrize("first", range(0, len(ED25519), 4))
def test_keys_are_those_of_rfc_8032(first):
    private, public, message, signature = ED25519[first : first + 4]
    message = message.strip("-")
    verifier = Signer("a", bytes.fromhex(private)).verifier
    assert verifier.public_key.hex() == public
    assert verifier.is_valid(bytes.fromhex(signature), bytes.fromhex(message))
    assert not verifier.is_valid(bytes.fromhex(signature), bytes.fromhex(message) + b"\0")


def test_the_example_of_the_specification_is_verified():
    verifier = parse_verifier(VKEY)
    assert str(verifier) == VKEY
    assert open_note(NOTE.encode(), [verifier]) == "This is an example message.\n"
    with pytest.raises(Unverified, match="is wrong"):
        open_note(NOTE.replace("an example", "no example").encode(), [verifier])


@pytest.mark.parametrize("text", ["", "a", "a+b", VKEY[:-1], VKEY.replace("530d903a", "530d903b"), "+" + VKEY,
                                  VKEY.replace("530d903a", "530D903A"), VKEY.replace("+Aeky", "+Beky"),
                                  VKEY.replace("com/", "com /"), VKEY + "A"])  # fmt: skip
def test_a_wrong_key_is_refused(text):
    with pytest.raises(Malformed):
        parse_verifier(text)


def test_two_keys_sign_and_each_of_them_verifies():
    note = sign_note("text\n\nmore\n", [SIGNER, OTHER])
    for verifiers in ([SIGNER.verifier], [OTHER.verifier], [OTHER.verifier, SIGNER.verifier]):
        assert open_note(note.encode(), verifiers) == "text\n\nmore\n"
    with pytest.raises(Unverified, match="is not signed by"):
        open_note(note.encode(), [FOREIGN.verifier])
    with pytest.raises(Unverified, match="is not signed by"):
        open_note(note.encode(), [])


def test_a_wrong_signature_of_a_known_key_spoils_the_note():
    note = sign_note("text\n", [SIGNER]) + OTHER.line("another text\n")
    assert open_note(note.encode(), [SIGNER.verifier]) == "text\n"
    with pytest.raises(Unverified):
        open_note(note.encode(), [SIGNER.verifier, OTHER.verifier])


@pytest.mark.parametrize("note", [
    b"", b"\n", b"text\n", b"text\n\n", b"text\n\n\xe2\x80\x94 name AAAAAAAA", b"text\n\n- name AAAAAAAA\n",
    b"text\n\n\xe2\x80\x94 na+me AAAAAAAA\n", b"text\n\n\xe2\x80\x94 name AAA=\n", b"text\n\n\xe2\x80\x94 name !!!!!!!!\n",
    b"te\0xt\n\n\xe2\x80\x94 name AAAAAAAA\n", b"\xff\n\n\xe2\x80\x94 name AAAAAAAA\n", b"x" * (1 << 20) + b"\n",
    b"text\n\n" + 65 * b"\xe2\x80\x94 name AAAAAAAA\n",
])  # fmt: skip
def test_a_malformed_note_is_refused(note):
    with pytest.raises(Malformed):
        open_note(note, [SIGNER.verifier])


@given(st.binary(max_size=200))
def test_no_bytes_are_a_note(noise):
    with pytest.raises((Malformed, Unverified)):
        open_note(noise, [SIGNER.verifier])


def test_a_checkpoint_has_three_lines():
    checkpoint = Checkpoint("example.com/behind-the-sofa", 20852163, b"\x09" * 32)
    signed = sign_checkpoint(checkpoint, [SIGNER])
    text, _, _ = signed.rpartition("\n\n")
    assert text.split("\n") == [
        "example.com/behind-the-sofa",
        "20852163",
        "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=",
    ]
    assert parse_checkpoint(text + "\n") == checkpoint
    example = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    assert parse_checkpoint(example).size == 20852163
    assert parse_checkpoint(example + "an extension\n").size == 20852163


@pytest.mark.parametrize("text", ["", "a\n", "a\n1\n", "a\n1\nAAAA\n", "a\n01\n{root}\n", "a\n-1\n{root}\n", "\n1\n{root}\n",
                                  "a\n1\n{root}", "a\n1\n{root}\n\n", "a\n1 \n{root}\n", "a\n٣\n{root}\n", "a\n99999999999999999999\n{root}\n",
                                  "a\n1\n{root}x\n"])  # fmt: skip
def test_a_malformed_checkpoint_is_refused(text):
    with pytest.raises(Malformed):
        parse_checkpoint(text.format(root="CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="))


def test_a_key_signs_only_for_the_log_of_its_name():
    checkpoint = Checkpoint(NAME, 1, b"\1" * 32)
    assert open_checkpoint(sign_checkpoint(checkpoint, [SIGNER]).encode(), [SIGNER.verifier]) == checkpoint
    for signers in ([FOREIGN], [OTHER]):
        note = sign_checkpoint(checkpoint, signers).encode()
        with pytest.raises(Unverified):
            open_checkpoint(note, [SIGNER.verifier, FOREIGN.verifier])


ENTRIES = [b'{"position":%d}' % (n + 1) for n in range(300)]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]


def proof_of(index, size, signer=SIGNER):
    checkpoint = sign_checkpoint(Checkpoint(signer.verifier.name, size, tree_hash(LEAVES[:size])), [signer])
    return encode_proof(Proof(index, hashes_of(LEAVES, inclusion_ranges(index, size)), checkpoint.encode()))


@given(st.integers(1, 300), st.data())
def test_a_proof_is_verified_with_its_entry(size, data):
    index = data.draw(st.integers(0, size - 1))
    found, checkpoint = verify_proof(proof_of(index, size), ENTRIES[index], [SIGNER.verifier])
    assert (found, checkpoint.size) == (index, size)


def test_extra_data_is_ignored():
    first, rest = proof_of(3, 9).split(b"\n", 1)
    assert verify_proof(first + b"\nextra AAAA\n" + rest, ENTRIES[3], [SIGNER.verifier])[0] == 3


@given(st.integers(2, 300), st.data())
def test_no_changed_proof_is_verified(size, data):
    index = data.draw(st.integers(0, size - 1))
    file = proof_of(index, size)
    at = data.draw(st.integers(0, len(file) - 1))
    forged = data.draw(st.sampled_from((
        file[:at] + bytes([file[at] ^ (1 << data.draw(st.integers(0, 7)))]) + file[at + 1 :],
        file[:at] + file[at + 1 :],
        file[:at],
        file.replace(b"index %d\n" % index, b"index %d\n" % ((index + 1) % size)),
        file.replace(b"\n%d\n" % size, b"\n%d\n" % (size + 1)),
        proof_of(index, size, FOREIGN),
        proof_of(index, size, OTHER),
    )))  # fmt: skip
    with pytest.raises((Malformed, Unverified)):
        verify_proof(forged, ENTRIES[index], [SIGNER.verifier])


def test_another_entry_is_not_proved():
    file = proof_of(5, 9)
    for entry in (ENTRIES[4], ENTRIES[5] + b" ", b""):
        with pytest.raises(Unverified, match="not at index 5"):
            verify_proof(file, entry, [SIGNER.verifier])


def test_parts_of_a_proof_are_read_back():
    proof = parse_proof(proof_of(7, 20))
    assert proof.index == 7
    assert proof.hashes == hashes_of(LEAVES, inclusion_ranges(7, 20))


@pytest.mark.parametrize("file", [b"", b"c2sp.org/tlog-proof@v1\n", b"c2sp.org/tlog-proof@v2\nindex 0\n\n",
                                  b"c2sp.org/tlog-proof@v1\nindex 00\n\n", b"c2sp.org/tlog-proof@v1\nextra !\nindex 0\n\n",
                                  b"c2sp.org/tlog-proof@v1\n\n", b"c2sp.org/tlog-proof@v1\nindex 0\n\xff\n\n",
                                  b"c2sp.org/tlog-proof@v1\nindex 0\n" + 64 * (43 * b"A" + b"=\n") + b"\n"])  # fmt: skip
def test_a_malformed_proof_is_refused(file):
    with pytest.raises(Malformed):
        parse_proof(file)

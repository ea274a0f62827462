// A secret of a repository as the code host takes it: a sealed box for the repository's public key (X25519,
// XSalsa20-Poly1305, a nonce of BLAKE2b), which Node's own crypto cannot make.

/** `publicKey`: base64, 32 bytes. Answers in base64. Throws where the key is none. */
export async function sealSecret(value: string, publicKey: string): Promise<string> {
  // Loaded by the first that needs it: most daemons never do, and it would cost each of their starts.
  const { default: sodium } = await import('libsodium-wrappers');
  await sodium.ready;
  const key = Buffer.from(publicKey, 'base64');
  if (key.length !== sodium.crypto_box_PUBLICKEYBYTES) throw new Error('the public key of the repository is none');
  return Buffer.from(sodium.crypto_box_seal(Buffer.from(value, 'utf8'), key)).toString('base64');
}

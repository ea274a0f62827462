// Envelope encryption of secret values and credentials (docs/reference/secrets.md#storage). Each write draws a fresh 256-bit
// data key, encrypts the value with it and wraps it under the current master key, both with AES-256-GCM. Both layers bind, as
// additional data, whose value this is: a row moved to another organization, project or name, or relabelled with another key
// version, does not open. It never stores anything, never logs, never chooses a scope.
//
// Nonces are random. A data key encrypts once. A master key wraps once a write; 96-bit random nonces are sound up to 2^32
// wraps, so a version that nears 2^31 writes is due for `svc keys rotate`, which re-encrypts every value.

export { createSealer, type SealBinding, type Sealed, type Sealer } from './envelope.ts';
export { hmacMatches, hmacSha256, secretsMatch } from './hmac.ts';
export { type KeyRing, openKeyRing } from './key-ring.ts';
export { newDataKey, openPiece, sealPiece } from './pieces.ts';
export { parseMasterKeys, readMasterKeys } from './master-keys.ts';

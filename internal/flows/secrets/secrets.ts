// Secrets: named, write-only values at organization or project scope (docs/reference/secrets.md). Decides what a write, an
// edit, a rotation and a reveal mean, what expires when, and what a launch gets. Every change writes its audit entry in its
// transaction; a value is opened only after the entry about it is committed. No answer, error, log or audit entry of this
// room holds a value, but the one of a reveal.

export { createSecret } from './create.ts';
export { checkKeys, diagnoseKeys, keyHolder, keyReport, runRotation, startRotation } from './keys.ts';
export {
  countSealed,
  editSecret,
  findSecretMetadata,
  removeSecret,
  revealSecret,
  rotateSecretValue,
  secretVersion,
  writeSecret,
} from './manage.ts';
export { placeholderOf, resolveSecrets, type SecretUse } from './resolve.ts';

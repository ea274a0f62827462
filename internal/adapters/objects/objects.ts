// Archives that daemons of one installation share: sealed under its master key, in a directory that all of them see or in a
// store that speaks the API of S3. They are a cache: what the store cannot give, or nobody can open any more, is a miss, and
// costs time only. It knows nothing of what is in an archive. docs/reference/configuration.md#settings.

export { DirectoryStore } from './directory.ts';
export { S3Store } from './s3.ts';
export { type ArchiveSealer, SharedArchives } from './archives.ts';
export type { ObjectStore } from './types.ts';

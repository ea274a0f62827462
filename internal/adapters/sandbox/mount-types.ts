// What is mounted, and within which bounds.

import type { Mirrors } from './mirrors.ts';

export interface MountRequest {
  /** `https://host/owner/repo`; without a user. `http:` where private networks are allowed. */
  readonly url: string;
  /** Absolute, as declared. */
  readonly mountPath: string;
  /** A branch, a tag, a full `refs/…` name or a commit id, rendered. Default: the host's default branch. */
  readonly ref?: string;
  readonly depth?: number;
  /** The value of the `Authorization` header, asked for once, right before the clone. */
  readonly authorization?: () => Promise<string>;
  readonly commitAuthor?: { readonly name: string; readonly email: string };
}

export interface MountOptions {
  readonly allowPrivateNetwork: boolean;
  /** PATH in which git is found. */
  readonly path: string;
  /** Limits; the defaults are 15 minutes, 4 GiB of objects, 8 GiB and 1,000,000 files in the tree. */
  readonly timeoutMs?: number;
  readonly maxPackBytes?: number;
  readonly maxTreeBytes?: number;
  readonly maxFiles?: number;
  /** Where large repositories are kept for the next mount, and for whom. Without: each is cloned afresh. */
  readonly mirrors?: { readonly kept: Mirrors; readonly scope: string };
  readonly signal?: AbortSignal;
}

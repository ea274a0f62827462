// What an image is called that build steps have made: the same of the same, in all sessions.

import { sha256 } from '../../base/hash.ts';
import type { ImageBuild } from './types.ts';

/** `svc-image-` and a digest of image, steps and plain environment. */
export function imageTag(digest: string, build: ImageBuild | undefined): string {
  const { steps = [], env = {} } = build ?? {};
  const sorted = Object.entries(env).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const key = JSON.stringify([digest, steps, sorted]);
  return `svc-image-${sha256(key)}`;
}

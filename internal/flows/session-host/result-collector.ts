// What a session leaves for people (docs/reference/sessions.md#files): the files below SVC_ARTIFACTS, and how its work
// trees differ from what was mounted. Both are read by programs inside its sandbox, so that no link leads out of it, after
// each turn and once more before the sandbox is stopped; values that must not show are masked before anything is kept.

import { finished } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { sha256Bytes } from '../../base/hash.ts';
import { within } from '../../base/waits.ts';
import type { Sandbox } from '../../adapters/sandbox/sandbox.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import { knownFiles, type LeftFile, putDiff, putFile } from '../../adapters/store/sessions/session-results.ts';
import type { Mount } from '../../domain/spec.ts';
import type { FlowContext } from '../context.ts';
import type { Mask } from './mask.ts';
import { isCloned } from './mounts.ts';

/** As paths of sandboxes are declared. */
export const artifactsPath = '/home/user/artifacts';

export const resultLimits = {
  /** Of one file, and of all that a session leaves. */
  fileBytes: 10 * 1024 * 1024,
  allBytes: 50 * 1024 * 1024,
  files: 100,
  diffBytes: 1024 * 1024,
} as const;
const listBytes = 256 * 1024;
const programMs = 15_000;
const lastWordsMs = 1_000;
/** A sandbox in which a program does not start, or end, within this says nothing. */
const answerMs = 5_000;

interface Captured {
  readonly code: number | null;
  readonly bytes: Buffer;
  readonly isCut: boolean;
}

/** Throws where the sandbox says nothing. */
async function answered<T>(work: Promise<T>, ms: number): Promise<T> {
  const found = await within(work, ms);
  if (found === undefined) throw new Error('the sandbox says nothing');
  return found.value;
}

/** What a program of the sandbox writes to its output, up to so many bytes; then it is ended. */
async function capture(sandbox: Sandbox, argv: readonly string[], most: number): Promise<Captured> {
  const child = await answered(sandbox.spawn({ argv, cwd: sandbox.home }), answerMs);
  const chunks: Buffer[] = [];
  let size = 0;
  const end = (): void => void child.kill().catch(() => undefined); // Its end is told by `exited`, however late.
  const timer = setTimeout(end, programMs);
  child.stdin.end();
  child.stderr.resume();
  child.stdout.on('data', (chunk: Buffer) => {
    if (size < most) chunks.push(chunk.subarray(0, most - size));
    size += chunk.length;
    if (size > most) end();
  });
  const read = finished(child.stdout).catch(() => undefined);
  const { code } = await answered(child.exited, programMs + answerMs).finally(() => clearTimeout(timer));
  // What was written before the end is still on its way.
  await Promise.race([read, sleep(lastWordsMs, undefined, { ref: false })]);
  return { code, bytes: Buffer.concat(chunks), isCut: size > most };
}

/**
 * The second that it is, then `stat` of each plain file, a line each; what has a line break in its name is not listed. That
 * of macOS has other words. By the time of the change, which no program sets.
 */
const listing = `cd -- "$1" 2>/dev/null || exit 0
as=-c; what='%s %Z %n'
stat -c %s . >/dev/null 2>&1 || { as=-f; what='%z %c %N'; }
date +%s
exec find . -type f ! -name '*
*' -exec stat "$as" "$what" {} +`;

interface Seen {
  readonly path: string;
  readonly size: number;
  /** In seconds; 0 where it may change once more and be of the same. */
  readonly modified: number;
}

function seenIn(text: string): Seen[] {
  const [second = '', ...lines] = text.split('\n');
  return lines
    .flatMap((line) => {
      const [, size, changed, path] = /^(\d+) (\d+) \.\/(.+)$/.exec(line) ?? [];
      const isGood = path !== undefined && Buffer.byteLength(path) <= 1_024 && path.isWellFormed();
      // Times of files go by the tick of the clock, and stay behind it.
      const modified = Number(changed) + 1 < Number(second) ? Number(changed) : 0;
      return isGood && !/[\0-\x1f\x7f\ufffd]/.test(path) ? [{ path, size: Number(size), modified }] : [];
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Text as people wrote it is masked as text, anything else byte by byte. */
async function masked(mask: Mask, bytes: Buffer): Promise<Buffer> {
  const text = bytes.toString('utf8');
  if (Buffer.from(text, 'utf8').equals(bytes)) return Buffer.from(await mask.applyInTurns(text), 'utf8');
  const plain = bytes.toString('latin1');
  const clean = await mask.applyInTurns(plain);
  return clean === plain ? bytes : Buffer.from(clean, 'latin1');
}

/**
 * In the repository $1: a first line with the commit that was mounted, then the difference of the tree, files that are new
 * included. The index of the session stays as it is.
 */
const differing = `cd -- "$1" || exit 3
base=$(git rev-parse -q --verify refs/svc/mounted) || exit 4
echo "$base"
index=$(mktemp) || exit 5
cp -- "$(git rev-parse --git-path index)" "$index" 2>/dev/null || rm -f -- "$index"
GIT_INDEX_FILE=$index; export GIT_INDEX_FILE
git add -A >/dev/null 2>&1
git -c core.quotepath=off diff --cached --no-color --no-ext-diff --no-textconv "$base"
rm -f -- "$index" "$index.lock"`;

export interface ResultSource {
  readonly session: ClaimedSession;
  readonly sandbox: Sandbox;
  readonly mounts: readonly Mount[];
  readonly mask: Mask;
}

/** Remembers, in a clone that was just made, what was mounted. */
export async function markMounted(sandbox: Sandbox, mountPath: string): Promise<void> {
  const command = ['git', '-C', sandbox.pathIn(mountPath), 'update-ref', 'refs/svc/mounted', 'HEAD'];
  await sandbox.run({ command, timeoutMs: programMs });
}

/** Keeps what a session leaves: one reading at a time, and one more for what was asked for meanwhile. */
export class ResultCollector {
  readonly #ctx: FlowContext;
  readonly #of: ResultSource;
  #running: Promise<void> | undefined;
  #isDue = false;

  constructor(ctx: FlowContext, of: ResultSource) {
    this.#ctx = ctx;
    this.#of = of;
  }

  /** Reads in the background. */
  soon(): void {
    this.#isDue = true;
    this.#running ??= this.#read();
  }

  /** Reads, and resolves when all is kept. Never rejects: what cannot be kept is logged. */
  async now(): Promise<void> {
    this.soon();
    while (this.#running !== undefined) await this.#running;
  }

  async #read(): Promise<void> {
    while (this.#isDue) {
      this.#isDue = false;
      try {
        await this.#files();
        await this.#diffs();
      } catch (error) {
        const { sessionId } = this.#of.session;
        this.#ctx.runtime.log.warn({ err: error, sessionId }, 'session.leavings_not_kept');
      }
    }
    this.#running = undefined;
  }

  async #files(): Promise<void> {
    const { sandbox, session } = this.#of;
    const { db } = this.#ctx;
    const listed = await capture(sandbox, ['/bin/sh', '-c', listing, 'sh', sandbox.pathIn(artifactsPath)], listBytes);
    const seen = seenIn(listed.bytes.toString('utf8'));
    if (seen.length === 0) return;
    const known = new Map((await knownFiles(db, session.sessionId)).map((one) => [one.path, one]));
    const kept = [...known.values()].filter((one) => one.isKept);
    let count = known.size;
    let left = resultLimits.allBytes - kept.reduce((sum, one) => sum + one.size, 0);
    for (const file of seen) {
      const before = known.get(file.path);
      const isKnown = before?.size === file.size && before.modified === file.modified && file.modified > 0;
      if (isKnown) continue;
      if (before === undefined && count >= resultLimits.files) continue;
      if (before === undefined) count += 1;
      if (before?.isKept === true) left += before.size;
      const row = await this.#fileOf(file, left);
      if ('content' in row.kept) left -= row.size;
      await putFile(db, session, row);
    }
  }

  async #fileOf(file: Seen, left: number): Promise<LeftFile> {
    const { sandbox, mask } = this.#of;
    const now = this.#ctx.runtime.now();
    if (file.size > resultLimits.fileBytes) return { ...file, kept: { refused: 'too-large' }, now };
    if (file.size > left) return { ...file, kept: { refused: 'too-many' }, now };
    const path = `${sandbox.pathIn(artifactsPath)}/${file.path}`;
    const { code, bytes, isCut } = await capture(sandbox, ['cat', '--', path], resultLimits.fileBytes);
    if (isCut) return { ...file, kept: { refused: 'too-large' }, now };
    if (code !== 0) return { ...file, kept: { refused: 'unreadable' }, now };
    const content = await masked(mask, bytes);
    return { ...file, kept: { content, sha256: sha256Bytes(content) }, now };
  }

  async #diffs(): Promise<void> {
    const { sandbox, session, mounts, mask } = this.#of;
    for (const mount of mounts.filter(isCloned)) {
      const { mountPath, repository } = mount;
      const argv = ['/bin/sh', '-c', differing, 'sh', sandbox.pathIn(mountPath)];
      const { code, bytes, isCut } = await capture(sandbox, argv, resultLimits.diffBytes);
      const [, commit, diff] = /^([0-9a-f]{40,64})\n([\s\S]*)$/.exec(bytes.toString('utf8')) ?? [];
      // A session may have taken its repository away.
      if (commit === undefined || diff === undefined || (code !== 0 && !isCut)) continue;
      const ref = Object.hasOwn(session.mountRefs, mountPath) ? session.mountRefs[mountPath] : mount.ref;
      const whole = await mask.applyInTurns(diff);
      const text = isCut ? mask.closed(whole) : whole;
      await putDiff(this.#ctx.db, session, {
        ...{ mountPath, repository, ref: ref ?? null, commit, truncated: isCut },
        diff: text.replaceAll('\0', '\ufffd').toWellFormed(),
        takenAt: this.#ctx.runtime.now(),
      });
    }
  }
}

// Reading one source: within its host's budget of connections, within one deadline for all that a run reads, and only as
// long as nobody wants something newer. A server that swallows requests or sends a byte a minute costs this repository
// its time and nobody else anything.

import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { PriorRead, RepoSource, Snapshot, SnapshotOptions, Tip } from '../../adapters/repo/types.ts';
import type { Limiter } from '../limits.ts';

/** What a stage may ask of a source; every call throws RepoCondition, or the reason for which the run was ended. */
export interface SourceReader {
  resolve(prior: PriorRead | null): Promise<Tip>;
  snapshot(tip: Tip, options: Omit<SnapshotOptions, 'signal'>): Promise<Snapshot>;
  close(): Promise<void>;
}

export interface ReaderOptions {
  readonly source: RepoSource;
  readonly limited: Limiter;
  /** The key under which the source shares its server's budget. */
  readonly host: string;
  /** Asked for by hand: goes before what waits for the same server. */
  readonly urgent: boolean;
  /** For all calls together, the wait for a place not counted. */
  readonly limitMs: number;
  /** Ends a read at once, with its reason. */
  readonly signal: AbortSignal;
  /** Says right before a read, when it has its place, that it is not to be: throws. */
  readonly mayBegin: () => void;
}

/** Whatever the source does with its signal, a call ends when its time is over or the run is ended. */
export function createReader(options: ReaderOptions): SourceReader {
  const { source, limited, host, urgent, signal, mayBegin } = options;
  let leftMs = options.limitMs;
  const read = <T>(call: (deadline: AbortSignal) => Promise<T>): Promise<T> =>
    limited(
      host,
      async () => {
        mayBegin();
        const begun = performance.now();
        try {
          return await within(call, { signal, limitMs: options.limitMs, leftMs });
        } finally {
          leftMs -= performance.now() - begun;
        }
      },
      { urgent, signal },
    );
  return {
    resolve: (prior) => read((deadline) => source.resolve(deadline, prior)),
    snapshot: (tip, more) => read((deadline) => source.snapshot(tip, { ...more, signal: deadline })),
    close: () => source.close(),
  };
}

async function within<T>(
  call: (deadline: AbortSignal) => Promise<T>,
  { signal, limitMs, leftMs }: { readonly signal: AbortSignal; readonly limitMs: number; readonly leftMs: number },
): Promise<T> {
  signal.throwIfAborted();
  const ending = new AbortController();
  let end: (reason: unknown) => void = () => undefined;
  const ended = new Promise<never>((_resolve, reject) => {
    end = (reason) => {
      ending.abort(reason);
      reject(reason);
    };
  });
  const late = (): void =>
    end(new RepoCondition('unreachable', `reading the repository took longer than ${limitMs / 1000} s`));
  const overtaken = (): void => end(signal.reason);
  const timer = setTimeout(late, Math.max(leftMs, 1));
  signal.addEventListener('abort', overtaken, { once: true });
  try {
    const called = call(ending.signal);
    // It may go on for a moment after it was given up, and how it ends then is nobody's business any more.
    called.catch(() => undefined);
    return await Promise.race([called, ended]);
  } catch (error) {
    throw ending.signal.aborted ? ending.signal.reason : error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', overtaken);
  }
}

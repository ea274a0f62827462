// The first page of a project, each part bounded so that the whole stays below 20 kB.

import {
  type AttentionRow,
  countedMax,
  countEvents,
  type MinuteRow,
  readAttention,
  readLastRuns,
  readLive,
  readNext,
} from '../../adapters/store/console/overview.ts';
import type { Attention, EventCounts } from '../../../schemas/api/overview.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { cut as cutAt } from '../markup.ts';

const hourMs = 3_600_000;
const shown = { attention: 20, runs: 6, live: 8, next: 8, textChars: 240 } as const;
/** How long what is dear to find is shown again. */
const keptMs = { doctor: 5_000, events: 1_000 } as const;

/** What `svc doctor` says, and to whom; looked at by whoever calls, since it is other flows that know. */
export interface Doctor {
  readonly for: 'all' | 'operators';
  look(): Promise<
    readonly { readonly name: string; readonly status: 'ok' | 'warning' | 'error'; readonly message: string }[]
  >;
}

/** Those of the doctor's checks that the overview says by itself, with where to go. */
const saidAlready: readonly string[] = ['repository', 'sync', 'held', 'permission'];

const cut = (text: string): string => cutAt(text, shown.textChars);
const iso = (at: Date): string => at.toISOString();
const isoOr = (at: Date | null): string | null => at?.toISOString() ?? null;

function attentionOf(root: string, row: AttentionRow): Attention {
  const { kind, severity, subject, detail, word } = row;
  const more = detail === null || detail === '' ? '' : `: ${detail}`;
  const run = `${root}/reconciles/${row.runId}`;
  const said = {
    held: { text: `repository ${subject} is held${more}`, href: run },
    failed: {
      text: `repository ${subject}: ${word}${more}`,
      href: row.runId === null ? `${root}/repositories/${encodeURIComponent(subject)}` : run,
    },
    asks: { text: `session of ${row.agent} asks${more}`, href: `${root}/sessions/${subject}` },
    doctor: { text: `connection ${subject} is ${word}${more}`, href: `${root}/doctor` },
    authorization: {
      text: `connection ${subject}: ${word.replaceAll('_', ' ')}${more}`,
      href: `${root}/connections`,
    },
  }[kind];
  return { kind, severity, text: cut(said.text), subject, since: isoOr(row.since), href: said.href };
}

function countsOf(since: Date, rows: readonly MinuteRow[]): EventCounts {
  const sum = (of: keyof Omit<MinuteRow, 'at'>): number => rows.reduce((all, row) => all + row[of], 0);
  const counts = {
    routed: sum('routed'),
    unmatched: sum('unmatched'),
    failed: sum('failed'),
    pending: sum('pending'),
  };
  const total = counts.routed + counts.unmatched + counts.failed + counts.pending;
  const minutes = rows.map(({ at, ...row }) => ({ at: iso(at), ...row }));
  return { since: iso(since), total, ...counts, truncated: total >= countedMax, minutes };
}

/** Remembers what a project's look found for a moment, so that many readers cost one look. */
function remembered<T>(forMs: number): (key: string, look: () => Promise<T>) => Promise<T> {
  const known = new Map<string, { readonly at: number; readonly value: Promise<T> }>();
  return (key, look) => {
    const found = known.get(key);
    if (found !== undefined && performance.now() - found.at < forMs) return found.value;
    const value = look();
    if (known.size > 1_000) known.clear();
    known.set(key, { at: performance.now(), value });
    // What failed is not shown again.
    value.catch(() => known.delete(key));
    return value;
  };
}
const caches = new WeakMap<
  object,
  {
    readonly doctor: ReturnType<typeof remembered<Awaited<ReturnType<Doctor['look']>>>>;
    readonly events: ReturnType<typeof remembered<MinuteRow[]>>;
  }
>();
function cachesOf(ctx: FlowContext) {
  const { root } = ctx.db;
  const found = caches.get(root) ?? { doctor: remembered(keptMs.doctor), events: remembered(keptMs.events) };
  caches.set(root, found);
  return found;
}

const weight = { error: 0, warning: 1 } as const;

/** The first page of a project as of now. */
export async function readOverview(ctx: FlowContext, project: ProjectRef, doctor: Doctor) {
  const now = ctx.runtime.now();
  const since = new Date(now.getTime() - hourMs);
  const root = `/${project.orgSlug}/${project.slug}`;
  const cache = cachesOf(ctx);
  const [troubles, checks, runs, live, next, minutes] = await Promise.all([
    readAttention(ctx.db, project.id),
    cache.doctor(`${project.id} ${doctor.for}`, () => doctor.look()),
    readLastRuns(ctx.db, project.id, shown.runs),
    readLive(ctx.db, project.id, shown.live),
    readNext(ctx.db, project.id, shown.next),
    cache.events(project.id, () => countEvents(ctx.db, project.id, since)),
  ]);
  const told: Attention[] = checks.flatMap(({ name, status, message }) =>
    status === 'ok' || saidAlready.includes(name)
      ? []
      : [{ kind: 'doctor', severity: status, text: cut(message), subject: name, since: null, href: `${root}/doctor` }],
  );
  const all = [...troubles.map((row) => attentionOf(root, row)), ...told];
  // What is worse comes first; among equals the order of kinds and of time stays.
  all.sort((a, b) => weight[a.severity] - weight[b.severity]);
  return {
    attention: all.slice(0, shown.attention),
    attentionTotal: all.length,
    lastRuns: runs.map(({ condition, detail, about, ...run }) => ({
      ...run,
      ...(about !== null && { commitMessage: cut(about.message), commitAuthor: about.author }),
      ...(condition !== null && { condition }),
      ...(detail !== null && { detail: cut(detail) }),
      startedAt: iso(run.startedAt),
      finishedAt: isoOr(run.finishedAt),
      ms: run.finishedAt === null ? null : run.finishedAt.getTime() - run.startedAt.getTime(),
    })),
    live: live.rows.map((row) => ({ ...row, createdAt: iso(row.createdAt), activeAt: iso(row.activeAt) })),
    liveTotal: live.total,
    next: next.rows.map((row) => ({ ...row, at: iso(row.at) })),
    nextTotal: next.total,
    events: countsOf(since, minutes),
    asOf: iso(now),
  };
}

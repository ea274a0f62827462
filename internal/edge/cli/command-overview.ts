// `svc overview`: whether anything is wrong, what changed last, what runs and what comes, as the first page of the console
// says it. Exit 0 whatever it finds: `svc doctor` is for scripts.

import * as api from '../../../schemas/api/overview.ts';
import { connect } from './client.ts';
import { statusColour } from './print-run.ts';
import { clean, count, cut, durationText, type Paint, relativeTime, table } from './text.ts';
import type { Handler } from './types.ts';

export const overviewCommand: Handler = async (call) => {
  const client = await connect(call);
  const overview = await client.call(api.getOverview);
  const { paint, width } = call.screen;
  call.screen.emit(overview, () => overviewText(overview, { paint, width, now: call.screen.now() }));
  return 0;
};

interface Print {
  readonly paint: Paint;
  readonly width: number | undefined;
  readonly now: Date;
}

function needsText({ attention, attentionTotal }: api.Overview, { paint, width, now }: Print): string[] {
  if (attentionTotal === 0) return [paint('green', 'nothing needs you')];
  const rows = attention.map(({ kind, severity, text, since }) => [
    { text: kind, colour: severity === 'error' ? ('red' as const) : ('yellow' as const) },
    cut(clean(text, true), Math.max(20, (width ?? 120) - 30)),
    relativeTime(since ?? undefined, now),
  ]);
  const rest = attentionTotal - attention.length;
  const more = rest > 0 ? [`and ${count(rest, 'more thing')}: svc doctor`] : [];
  return [
    paint('bold', attentionTotal === 1 ? '1 needs you' : `${attentionTotal} need you`),
    table(['kind', 'what', 'since'], rows, { paint, width }),
    ...more,
  ];
}

/** What `svc overview` prints. Pure. */
export function overviewText(overview: api.Overview, print: Print): string {
  const { paint, width, now } = print;
  const { lastRuns, live, liveTotal, next, nextTotal, events } = overview;
  const runs = lastRuns.map((run) => [
    relativeTime(run.startedAt, now),
    run.repository ?? '-',
    run.commit?.slice(0, 14) ?? '-',
    { text: run.status, colour: statusColour(run.status) },
    `+${run.created} ~${run.updated} -${run.deleted}${run.mistakes > 0 ? ` ${count(run.mistakes, 'mistake')}` : ''}`,
    run.ms === null ? '-' : durationText(run.ms),
  ]);
  const sessions = live.map((one) => [
    one.agent,
    { text: one.state, colour: statusColour(one.state) },
    one.id,
    `$${one.costUsd}`,
    cut(clean(one.reason ?? one.displayTitle, true), 60),
  ]);
  const ticks = next.map((one) => [relativeTime(one.at, now), one.agent, one.cron]);
  const lines = [...needsText(overview, print), ''];
  lines.push(paint('bold', 'changed'));
  lines.push(
    runs.length === 0
      ? 'nothing yet'
      : table(['when', 'repository', 'commit', 'state', 'change', 'took'], runs, { paint, width }),
  );
  lines.push('', paint('bold', `runs ${liveTotal}`));
  if (sessions.length > 0) lines.push(table(['agent', 'state', 'id', 'cost', 'what'], sessions, { paint, width }));
  lines.push('', paint('bold', `next ${nextTotal}`));
  if (ticks.length > 0) lines.push(table(['when', 'agent', 'cron'], ticks, { paint, width }));
  const { total, routed, unmatched, failed, pending } = events;
  lines.push(
    '',
    `events in an hour: ${total} (${routed} routed, ${unmatched} unmatched, ${failed} failed, ${pending} pending)`,
  );
  return lines.join('\n');
}

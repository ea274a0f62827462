// `svc trigger …`, `svc endpoint …`, `svc schedule list`: what wakes agents.

import type { DryRun } from '../../../schemas/api/common.ts';
import * as endpoints from '../../../schemas/api/endpoints.ts';
import * as schedules from '../../../schemas/api/schedules.ts';
import * as triggers from '../../../schemas/api/triggers.ts';
import { readPayload } from '../../core/match/match.ts';
import { type Client, connect } from './client.ts';
import { reasonBody, dryRun, isMeant } from './confirm.ts';
import { UsageError } from './failure.ts';
import { readJson } from './input.ts';
import { rowOf, type Row, short, showList } from './lists.ts';
import { explainText } from './print-event.ts';
import { requireAgent } from './selector.ts';
import { statusColour } from './print-run.ts';
import { clean, details, relativeTime, table } from './text.ts';
import type { Call, Handler } from './types.ts';

export const triggerList: Handler = async (call) => {
  const client = await connect(call);
  const isWide = call.screen.format === 'wide';
  return showList(call, client, {
    operation: triggers.listTriggers,
    input: {
      query: { agent: call.text('agent'), ...(isWide && { origins: 'true' as const, matches: 'true' as const }) },
    },
    empty: 'no triggers',
    head: ['agent', '#', 'event', 'through', 'routing', 'where', 'status'],
    row: (trigger) => {
      const through = trigger.at('endpoint') ?? trigger.at('connection');
      return [
        trigger.text('agent'),
        trigger.text('ordinal'),
        trigger.text('event'),
        typeof through === 'string' ? through : '-',
        routingText(trigger) + (trigger.at('fallback') === true ? ' (fallback)' : ''),
        whereText(trigger.at('where')),
        { text: trigger.text('status'), colour: statusColour(trigger.text('status')) },
      ];
    },
    wide: {
      head: ['declared', 'last match'],
      row: (trigger) => {
        const { source, lastMatch, since } = trigger.value;
        const line = source?.line ?? null;
        const never = since == null ? 'never' : 'not lately';
        return [
          source?.file == null ? '-' : `${source.file}${line === null ? '' : `:${line}`}`,
          lastMatch == null ? never : relativeTime(lastMatch.at, call.screen.now()),
        ];
      },
    },
    agentOf: (trigger) => trigger.text('agent'),
    ofAgent: call.text('agent'),
  });
};

function routingText(trigger: Row<triggers.Trigger>): string {
  const kind = trigger.text('routing.kind');
  const target = trigger.at('routing.target') ?? trigger.at('routing.routeBy.kind');
  return typeof target === 'string' ? `${kind} ${target}` : kind;
}

function whereText(where: unknown): string {
  const clauses = Object.entries(Object(where));
  return clauses.length === 0
    ? '-'
    : short(clauses.map(([path, clause]) => `${path}=${JSON.stringify(clause)}`).join(' '));
}

export const triggerShow: Handler = async (call) => {
  const client = await connect(call);
  const { agent, ordinal } = await triggerMeant(client, call.arg('TRIGGER'));
  const value = await client.call(triggers.getTrigger, { params: { agent, ordinal } });
  call.screen.emit(value, () => {
    const one = rowOf(value);
    const { source, lastMatch, since } = value;
    const place = source?.file === undefined || source.file === null ? '-' : `${source.file}:${source.line ?? '?'}`;
    const never = since === null ? 'never' : `not since ${since}`;
    const matched =
      lastMatch === null
        ? never
        : `${relativeTime(lastMatch.at, call.screen.now())}: ${lastMatch.decision} (svc event explain ${lastMatch.eventId})`;
    return details(
      [
        ['trigger', call.screen.paint('bold', clean(`${agent}#${ordinal}`, true))],
        ['event', clean(one.text(one.at('cron') === undefined ? 'event' : 'cron'), true)],
        ['through', clean(value.endpoint ?? value.connection ?? '-', true)],
        ['where', clean(whereText(value.where), true)],
        ['routing', clean(routingText(rowOf(value as triggers.Trigger)), true)],
        ['status', one.text('status')],
        ['declared', clean(place, true)],
        ['last match', clean(matched, true)],
      ],
      call.screen.paint,
    );
  });
  return 0;
};

/** `AGENT#ORDINAL`; the agent alone where it has one trigger; `AGENT-ORDINAL`, as its page says it, where no agent is called so. */
async function triggerMeant(
  client: Client,
  given: string,
): Promise<{ readonly agent: string; readonly ordinal: string }> {
  const [, agent = given, sign, ordinal = ''] = /^(.+)([#-])(\d+)$/.exec(given) ?? [];
  if (sign === '#') return { agent, ordinal };
  const { items } = await client.list(triggers.listTriggers, { query: { agent: given } });
  const [only, ...more] = items;
  if (only !== undefined && more.length === 0) return { agent: given, ordinal: String(only.ordinal) };
  if (only === undefined && sign === '-') return { agent, ordinal };
  if (only === undefined) await requireAgent(client, given);
  const all = items.map((one) => `${given}#${one.ordinal}`).join(', ');
  throw new UsageError(
    `TRIGGER is AGENT#ORDINAL: ${given} has ${all === '' ? 'no triggers' : all}`,
    '`svc trigger list` shows what each is for',
  );
}

export const triggerExplain: Handler = async (call) => {
  const event = call.text('event');
  const file = call.text('payload');
  const connection = call.text('connection');
  const raw = call.flag('raw');
  if (raw && connection === undefined) throw new UsageError('--raw needs --connection NAME');
  if (file === undefined || (event === undefined && !raw))
    throw new UsageError('--event KEY and --payload FILE are needed');
  const payload = await readJson(call, file, '--payload', readPayload);
  const endpoint = call.text('endpoint');
  const client = await connect(call);
  const body = {
    payload,
    ...(event !== undefined && { event }),
    ...(endpoint !== undefined && { endpoint }),
    ...(raw && { raw }),
    ...(connection !== undefined && { connection }),
  };
  const answer = await client.call(triggers.explainTriggers, { body });
  call.screen.emit(answer, () =>
    answer.ignored === undefined
      ? [
          ...(answer.event === undefined ? [] : [`the delivery is ${clean(answer.event, true)}`, '']),
          explainText(answer, call.screen.paint),
        ].join('\n')
      : `the delivery would not be recorded: ${clean(answer.ignored, true)}`,
  );
  return 0;
};

export const endpointList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    operation: endpoints.listEndpoints,
    empty: 'no webhook endpoints',
    head: ['name', 'status', 'auth', 'triggers', 'problems', 'address'],
    row: (endpoint) => [
      endpoint.text('name'),
      { text: endpoint.text('status'), colour: statusColour(endpoint.text('status')) },
      authText(endpoint),
      String(endpoint.at('triggers')?.length ?? '-'),
      String(endpoint.at('problems')?.length ?? '-'),
      endpoint.text('ingestUrl'),
    ],
  });
};

const authText = (endpoint: Row<endpoints.Endpoint>): string =>
  endpoint.at('auth.secretRef') === undefined
    ? endpoint.text('auth.kind')
    : `${endpoint.text('auth.kind')} (${endpoint.text('auth.secretRef')})`;

export const endpointShow: Handler = async (call) => {
  const client = await connect(call);
  const value = await client.call(endpoints.getEndpoint, { params: { name: call.arg('NAME') } });
  call.screen.emit(value, () => endpointText(value, call));
  return 0;
};

const replays = 'only a dedupKey in the body stops one; the signature covers the body alone';

/** What a caller sends to be believed. */
function proofText(kind: string | undefined): string | undefined {
  if (kind === 'hmac_sha256')
    return `header ${endpoints.signatureHeader}: hex HMAC-SHA256 of the body, under the secret`;
  return kind === 'bearer_token' ? 'header Authorization: Bearer and the secret' : undefined;
}

/** A delivery to try the endpoint with, for a shell; the secret is taken from a variable. */
function tryText({ auth, ingestUrl }: endpoints.Endpoint): string[] {
  const post = `curl -d "$BODY" -H 'content-type: application/json'`;
  const url = `'${clean(ingestUrl, true)}'`;
  const body = `BODY='{"hello":"world"}'`;
  if (auth?.kind === 'hmac_sha256') {
    const sign = `SIGNATURE=$(printf %s "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1)`;
    return [body, sign, `${post} -H "${endpoints.signatureHeader}: sha256=$SIGNATURE" ${url}`];
  }
  return [body, auth?.kind === 'bearer_token' ? `${post} -H "authorization: Bearer $SECRET" ${url}` : `${post} ${url}`];
}

function endpointText(value: endpoints.Endpoint, call: Call): string {
  const { paint, width } = call.screen;
  const endpoint = rowOf(value);
  const lines = [
    details(
      [
        ['endpoint', paint('bold', clean(endpoint.text('name'), true))],
        ['status', paint(statusColour(endpoint.text('status')), endpoint.text('status'))],
        ['address', paint('cyan', clean(endpoint.text('ingestUrl'), true))],
        ['slug', endpoint.text('slug')],
        ['auth', clean(authText(endpoint), true)],
        ['proof', proofText(endpoint.at('auth.kind'))],
        // Told wherever an endpoint is shown (docs/reference/webhook-endpoints.md#authentication).
        ['replays', endpoint.at('auth.kind') === 'hmac_sha256' ? replays : undefined],
      ],
      paint,
    ),
  ];
  const listening = endpoint.at('triggers') ?? [];
  if (listening.length > 0) {
    const rows = listening.map((one) => [one.agent, String(one.ordinal), one.event]);
    lines.push('', table(['agent', '#', 'event'], rows, { paint, width }));
  }
  const problems = endpoint.at('problems') ?? [];
  if (problems.length > 0) lines.push('');
  for (const { severity, message } of problems)
    lines.push(`${paint(statusColour(severity), `${severity}:`)} ${clean(message)}`);
  if (value.status === 'ready' && value.auth) {
    const secret = value.auth.secretRef;
    const head = secret === undefined ? 'try it' : `try it, with the value of ${clean(secret, true)} in SECRET`;
    lines.push('', paint('bold', head), ...tryText(value).map((line) => `  ${line}`));
  }
  return lines.join('\n');
}

export const endpointReserve: Handler = async (call) => {
  const client = await connect(call);
  const value = await client.call(endpoints.reserveEndpoint, { body: { name: call.arg('NAME') } });
  call.screen.emit(value, () => `reserved for one hour: ${clean(value.ingestUrl, true)}`);
  return 0;
};

export const endpointDelete: Handler = async (call) => {
  const client = await connect(call);
  const name = call.arg('NAME');
  const look = async () => (await client.call(endpoints.deleteEndpoint, { params: { name }, query: dryRun })) as DryRun;
  if (!(await isMeant(call, `deleting ${name}`, look))) return 0;
  await client.call(endpoints.deleteEndpoint, { params: { name }, ...reasonBody(call) });
  call.screen.emit({ name, status: 'deleted' }, () => `deleted ${name}`);
  return 0;
};

export const scheduleList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: schedules.listSchedules,
    empty: 'no schedules',
    head: ['agent', '#', 'cron', 'time zone', 'next', 'last', 'last status', 'session', 'id'],
    row: (schedule) => [
      schedule.text('agent'),
      schedule.text('ordinal'),
      schedule.text('cron'),
      schedule.text('timezone'),
      relativeTime(schedule.at('nextAt'), now),
      relativeTime(schedule.at('lastAt'), now),
      `${schedule.text('lastStatus')}${(schedule.at('skipped') ?? 0) > 0 ? ` (skipped ${schedule.text('skipped')})` : ''}`,
      schedule.text('lastSessionId'),
      schedule.text('scheduleId'),
    ],
    agentOf: (schedule) => schedule.text('agent'),
  });
};

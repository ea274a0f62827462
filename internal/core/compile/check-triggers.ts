// Triggers (docs/reference/compile.md#triggers): event triggers and heartbeats, strict, expanded to one per event key.

import { nearest } from '../../domain/nearest.ts';
import { check as fields, checks as list, eventTrigger, heartbeat, trigger } from '../../../schemas/trigger.ts';
import { keysOf } from '../../../schemas/grammar.ts';
import type {
  CheckSpec,
  CheckDeadline,
  EndpointAuth,
  EventTrigger,
  HeartbeatTrigger,
  Trigger,
  Where,
} from '../../domain/spec.ts';
import { diagnosticCodes } from '../../domain/codes.ts';
import {
  bindingEvents,
  canonicalEventKey,
  checkEventsPrefix,
  eventSources,
  type EventSource,
  knownEvents,
  sourceNeeds,
  sourceOf,
} from '../../domain/events.ts';
import { checkCron, checkTimezone, neverFires } from '../schedule/schedule.ts';
import { readFields, reading, readVariant } from './read-field.ts';
import {
  type Check,
  compact,
  fault,
  faultAt,
  field,
  items,
  type MapRef,
  type NodeRef,
  pathOf,
  type Reader,
  strict,
  suggest,
  wrong,
} from './read.ts';
import { layerOf } from './variant-layer.ts';
import { checkRouting, type RouteWords, routeWords, type RoutingDraft } from './check-routing.ts';

const manyField = eventTrigger.fields.events;

/** One authored trigger entry: what it expands to, and the places that cross checks and lint point at. */
export interface TriggerDraft {
  readonly spot: MapRef;
  readonly triggers: readonly Trigger[];
  /** The event keys with the place of each; empty for a heartbeat. */
  readonly events: readonly { readonly key: string; readonly spot: NodeRef }[];
  /** Where nothing in it is wrong. */
  readonly routing: RoutingDraft | undefined;
  readonly route: RouteWords | undefined;
  readonly where: Where;
  readonly whereSpot: MapRef | undefined;
  readonly endpoint:
    | { readonly name: string; readonly spot: NodeRef; readonly auth?: EndpointAuth; readonly authSpot?: NodeRef }
    | undefined;
}

const checksEvent = diagnosticCodes['checks-event'];

export const checkTriggers: Reader<readonly TriggerDraft[]> = (check, spot) => {
  const drafts: TriggerDraft[] = [];
  for (const item of items(check, spot, 'a list of triggers') ?? []) {
    const draft = checkTrigger(check, item);
    if (draft !== undefined) drafts.push(draft);
  }
  return drafts;
};

/** One entry: its fields by its table, and what its parts say of each other. */
function checkTrigger(check: Check, item: NodeRef): TriggerDraft | undefined {
  let routing = undefined as RoutingDraft | undefined;
  let events: Keys = [];
  const read = readVariant(check, item, trigger, {
    routing: (_, at) => {
      routing = checkRouting(check, at);
      return routing?.routing;
    },
    // Read together below, since each stands for the other.
    event: () => undefined,
    events: () => undefined,
    cron: cronText,
    timezone: timezoneText,
    checks: checkChecks,
  });
  if (read === undefined) return undefined;
  const { spot, desc } = read;
  const route = routeWords(spot);
  if (desc === heartbeat) {
    if (routing !== undefined) checkObserved(check, routing, undefined);
  } else {
    events = eventKeys(check, spot);
    checkFamilies(check, spot, events);
    checkAgainstEvents(check, spot, events, route);
    if (routing !== undefined) checkObserved(check, routing, events);
  }
  const whereSpot = field(spot, 'where');
  // Each field was read by its own reader; where one is missing or wrong, the document has an error and gives no spec.
  const fields = read.fields as Partial<Omit<EventTrigger, 'kind'> & Omit<HeartbeatTrigger, 'kind'>>;
  return {
    spot,
    triggers: desc === heartbeat ? heartbeatOf(fields) : eventsOf(fields, events),
    events,
    routing,
    route,
    where: fields.where ?? {},
    whereSpot: whereSpot?.node.kind === 'map' ? (whereSpot as MapRef) : undefined,
    endpoint: endpointOf(spot, fields),
  };
}

function heartbeatOf(fields: Partial<Omit<HeartbeatTrigger, 'kind'>>): readonly HeartbeatTrigger[] {
  const { cron, timezone, where, message, fallback, routing } = fields;
  return [compact<HeartbeatTrigger>({ kind: 'heartbeat', cron, timezone, where, message, fallback, routing })];
}

/** One trigger a key, in the order of the spec's own table. */
function eventsOf(fields: Partial<Omit<EventTrigger, 'kind'>>, events: Keys): readonly EventTrigger[] {
  const { connection, optional, endpoint, auth, where, message, routing } = fields;
  const { attachedUserPrompt, checks, fallback } = fields;
  const ways = { connection, optional, endpoint, auth };
  const rest = { where, message, attachedUserPrompt, checks, fallback, routing };
  return events.map(({ key }) => compact<EventTrigger>({ kind: 'event', event: key, ...ways, ...rest }));
}

function endpointOf(spot: MapRef, { endpoint, auth }: Partial<Omit<EventTrigger, 'kind'>>): TriggerDraft['endpoint'] {
  if (endpoint === undefined) return undefined;
  const [at, authSpot] = [field(spot, 'endpoint'), field(spot, 'auth')];
  return compact<NonNullable<TriggerDraft['endpoint']>>({ name: endpoint, spot: at, auth, authSpot });
}

const cronText: Reader<string> = (check, spot) => {
  const value = reading(heartbeat.fields.cron)(check, spot);
  if (value === undefined) return undefined;
  const problem = checkCron(value);
  if (problem !== null) {
    const hint = meantCron(value);
    return faultAt(check, 'cron-invalid', `${pathOf(spot.trail)}: ${problem}`, spot, hint === null ? {} : { hint });
  }
  if (neverFires(value)) {
    const message = 'No month has a day that this cron expression names; the trigger applies and never fires';
    const place = { range: spot.node.range, path: pathOf(spot.trail) };
    check.report({ severity: 'warning', code: 'cron-never-fires', message, ...place });
  }
  return value;
};

const nicknames: { readonly [word: string]: string } = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
};

/** Five fields for what other schedulers take: a nickname, and a time zone or seconds before the minute. */
function meantCron(value: string): string | null {
  const [first, ...rest] = value.trim().split(/[ \t]+/);
  const nickname = nicknames[value.trim().toLowerCase()];
  if (nickname !== undefined) return `Write '${nickname}'`;
  const five = rest.join(' ');
  if (checkCron(five) !== null) return null;
  const zone = /^(?:CRON_)?TZ=(.+)$/i.exec(first ?? '')?.[1];
  if (zone === undefined) return `Leave the seconds out: '${five}'`;
  return checkTimezone(zone) ? `Write cron: '${five}' and timezone: ${zone}` : `Write cron: '${five}'`;
}

const timezoneText: Reader<string> = (check, spot) => {
  const value = reading(heartbeat.fields.timezone)(check, spot);
  if (value === undefined || checkTimezone(value)) return value;
  const near = nearest(value, Intl.supportedValuesOf('timeZone'));
  const hint = near === undefined ? {} : { hint: `Did you mean ${near}?` };
  return wrong(check, spot, 'a time zone by its IANA name, such as Europe/Paris', {
    code: 'timezone-invalid',
    ...hint,
  });
};

type Keys = TriggerDraft['events'];

function eventKeys(check: Check, spot: MapRef): Keys {
  const one = field(spot, 'event');
  const many = field(spot, 'events');
  if (one !== undefined && many !== undefined) {
    const isLayered = one.key.file !== many.key.file;
    const layers = isLayered ? `; event comes from ${one.key.file}, events from ${many.key.file}` : '';
    const message = `${diagnosticCodes['event-and-events']}${layers}`;
    fault(check, 'event-and-events', message, one.key, pathOf(one.trail));
    fault(check, 'event-and-events', message, many.key, pathOf(many.trail));
  }
  if (one === undefined && many === undefined) {
    const first = spot.node.entries.values().next().value;
    fault(
      check,
      'event-missing',
      diagnosticCodes['event-missing'],
      first?.keyRange ?? spot.node.range,
      pathOf(spot.trail),
      { hint: 'For example: event: codehost.push; a schedule is kind: heartbeat with cron.' },
    );
  }
  const list = many === undefined ? [] : (items(check, many, manyField.what, { least: manyField.least }) ?? []);
  const keys: { key: string; spot: NodeRef }[] = [];
  /** As they are written, by the one spelling of each. */
  const seen = new Map<string, string>();
  for (const item of one === undefined ? list : [one, ...list]) {
    const key = eventKey(check, item);
    if (key === undefined) continue;
    const before = seen.get(canonicalEventKey(key));
    if (before === undefined) keys.push({ key, spot: item });
    else {
      const spelling = before === key ? '' : `, another spelling of ${before.slice(0, 80)}`;
      const message = `${pathOf(item.trail)} repeats ${key.slice(0, 80)}${spelling}; name each event once`;
      faultAt(check, 'invalid-value', message, item);
    }
    if (item !== one) seen.set(canonicalEventKey(key), before ?? key);
  }
  return keys;
}

const eventKey: Reader<string> = (check, spot) => {
  if (spot.node.kind === 'seq' && spot.trail?.step === 'event') {
    const hint = 'Several keys are a list under events.';
    return wrong(check, spot, 'an event key', { code: 'invalid-type', hint });
  }
  const key = reading(manyField.item)(check, spot);
  if (key === undefined || sourceOf(key) !== null) return key;
  const prefix = key.split('.', 1)[0] ?? '';
  const near = suggest(check, prefix, eventSources);
  const meant = keyOfAnySource(check, key);
  const known = `Event keys begin with ${eventSources.map((source) => `${source}.`).join(' ')}`;
  const guess = meant ?? (near === undefined || near === prefix ? undefined : `${near}.`);
  const hint = guess === undefined ? known : `Did you mean ${guess}? ${known}`;
  const shown = JSON.stringify(key.slice(0, 80).toWellFormed());
  return faultAt(check, 'event-provider', `${diagnosticCodes['event-provider']}: ${shown}`, spot, { hint });
};

/** What of a key stands behind its first segment. */
const tailOf = (key: string): string => key.slice(key.indexOf('.') + 1);

/** The known key that is the same behind its first segment: `<product>.pull_request.opened`, or `pull_request.opened`. */
function keyOfAnySource(check: Check, key: string): string | undefined {
  const tails = [...knownEvents].map(tailOf);
  const near = suggest(check, key, tails) ?? suggest(check, tailOf(key), tails);
  return [...knownEvents].find((known) => tailOf(known) === near);
}

/** The sources of keys that were read, each of which has one. */
const sourcesOf = (events: Keys): ReadonlySet<EventSource> =>
  new Set(events.map(({ key }) => sourceOf(key) as EventSource));

/** `connection`, `endpoint` and `auth` against the sources of the events (docs/reference/events.md; docs/reference/compile.md#triggers). */
function checkFamilies(check: Check, spot: MapRef, events: Keys): void {
  const sources = sourcesOf(events);
  const first = events[0]?.spot;
  const connection = field(spot, 'connection');
  const without = [...sources].filter((source) => sourceNeeds[source] !== 'connection');
  if (connection !== undefined && without.length > 0) {
    const layer = layerOf(connection.key.file, first, 'event');
    const message = `connection is not accepted on ${without.join(' and ')} events, which take none${layer}`;
    fault(check, 'trigger-field', message, connection.key, pathOf(connection.trail));
  } else if (connection !== undefined && sources.size > 1) {
    const message = `One connection cannot serve events of ${[...sources].join(' and ')}; declare a trigger for each`;
    fault(check, 'event-families', message, connection.key, pathOf(connection.trail));
  }
  const foreign = [...sources].filter((source) => source !== 'webhook');
  for (const name of ['endpoint', 'auth']) {
    const at = field(spot, name);
    if (at === undefined || foreign.length === 0) continue;
    fault(
      check,
      'trigger-endpoint',
      `${name} is accepted only on webhook events, not on ${foreign.join(' and ')}${layerOf(at.key.file, first, 'event')}`,
      at.key,
      pathOf(at.trail),
      { hint: 'Remove it, or let the event be webhook.received.' },
    );
  }
  const webhook = events.find(({ key }) => sourceOf(key) === 'webhook');
  if (webhook !== undefined && field(spot, 'endpoint') === undefined) {
    faultAt(
      check,
      'trigger-endpoint',
      `The event ${webhook.key.slice(0, 80)} requires endpoint, the name of a webhook endpoint`,
      webhook.spot,
      { hint: 'For example: endpoint: reports' },
    );
  }
}

/** What a session observes is another's binding, which only events of bindings tell of: never a heartbeat, which has none. */
function checkObserved(check: Check, draft: RoutingDraft, events: Keys | undefined): void {
  const { routing, observedSpot: at, aimSpot } = draft;
  if (routing.kind !== 'bind' || at === undefined) return;
  if (routing.target === 'svc.session' && events?.every(({ key }) => bindingEvents.includes(key)) === true) return;
  const message = `observedTarget is accepted only with target: svc.session on ${bindingEvents.join(', ')}`;
  const layer = layerOf(at.key.file, events?.[0]?.spot, 'event') || layerOf(at.key.file, aimSpot, 'target');
  fault(check, 'observed-target', message + layer, at.key, pathOf(at.trail));
}

function checkAgainstEvents(check: Check, spot: MapRef, events: Keys, route: RouteWords | undefined): void {
  const attached = field(spot, 'attachedUserPrompt');
  if (attached !== undefined && route !== undefined && route.kind !== 'spawn') {
    const layer = layerOf(attached.key.file, route.kindSpot, 'routing');
    const message = `${diagnosticCodes['attached-prompt']}, not for ${route.kind}${layer}`;
    fault(check, 'attached-prompt', message, attached.key, pathOf(attached.trail));
  }
  const checks = field(spot, 'checks');
  const other = events.find(({ key }) => !key.startsWith(checkEventsPrefix));
  if (checks !== undefined && other !== undefined) {
    const message = `${checksEvent}, not for ${other.key.slice(0, 80)}${layerOf(checks.key.file, other.spot, 'event')}`;
    fault(check, 'checks-event', message, checks.key, pathOf(checks.trail));
  }
  if (route?.isAttributed === true) attributedAuthored(check, spot, events, route);
}

/**
 * A chat delivery to attributed sessions must leave out what the service itself wrote
 * (docs/reference/compile.md#rules-across-triggers).
 */
function attributedAuthored(check: Check, spot: MapRef, events: Keys, { kindSpot, bySpot }: RouteWords): void {
  if (!events.some(({ key }) => key.startsWith('chat.message.'))) return;
  const where = field(spot, 'where');
  const clause = where?.node.kind === 'map' ? field(where as MapRef, '$.svc.authored') : undefined;
  if (clause?.node.kind === 'scalar' && clause.node.value === false) return;
  const message = 'A chat.message trigger with routeBy attributedSessions must filter $.svc.authored equal to false';
  faultAt(check, 'attributed-authored', message, clause ?? bySpot ?? kindSpot, {
    hint: 'Add "$.svc.authored: false" to where.',
  });
}

// Pull-request checks of a trigger (docs/reference/checks.md#states and #deadlines).

/** `timeout` is another spelling of `beginTimeout`. */
const { timeout, ...kept } = fields.fields;

export const checkChecks: Reader<readonly CheckSpec[]> = (check, spot) => {
  const seen = { name: new Map<string, NodeRef>(), displayName: new Map<string, NodeRef>() };
  const checks: CheckSpec[] = [];
  for (const item of items(check, spot, list.what, { least: list.least, code: list.code }) ?? []) {
    const found = strict(check, item, keysOf(fields));
    if (found === undefined) continue;
    const read = readFields(check, found, kept);
    const { name, displayName, description, instructions, completeTimeout } = read;
    const beginTimeout = checkBegin(check, found) ?? read.beginTimeout;
    unique(check, found, 'name', name, seen.name);
    unique(check, found, 'displayName', displayName, seen.displayName);
    checks.push(compact<CheckSpec>({ name, displayName, description, instructions, beginTimeout, completeTimeout }));
  }
  return checks;
};

function unique(check: Check, spot: MapRef, key: string, value: string | undefined, seen: Map<string, NodeRef>): void {
  if (value === undefined) return;
  const at = field(spot, key) as NodeRef;
  const first = seen.get(value);
  if (first === undefined) {
    seen.set(value, at);
    return;
  }
  const related = [{ message: 'the first of that name', range: first.node.range }];
  const message = `${pathOf(at.trail)} repeats ${JSON.stringify(value.slice(0, 80).toWellFormed())}; each check of a trigger needs its own`;
  faultAt(check, 'check-invalid', message, at, { related });
}

/** `timeout` and `beginTimeout` are one field under two names. */
function checkBegin(check: Check, spot: MapRef): CheckDeadline | undefined {
  const alias = field(spot, 'timeout');
  const begin = field(spot, 'beginTimeout');
  if (alias !== undefined && begin !== undefined) {
    const message = 'Use either timeout or beginTimeout, not both; they are the same deadline';
    fault(check, 'check-invalid', message, alias.key, pathOf(alias.trail));
    fault(check, 'check-invalid', message, begin.key, pathOf(begin.trail));
  }
  return alias && reading(timeout)(check, alias);
}

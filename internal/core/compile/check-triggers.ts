// Triggers (docs/reference/compile.md#triggers): event triggers and heartbeats, strict, expanded to one per event key.

import { DIAGNOSTIC_CODES } from '../../domain/codes.ts';
import {
  BINDING_EVENTS,
  CHECK_EVENTS_PREFIX,
  EVENT_SOURCES,
  KNOWN_EVENTS,
  sourceOf,
  SOURCE_NEEDS,
} from '../../domain/events.ts';
import type { EventSource } from '../../domain/events.ts';
import type { Check as CheckSpec, EndpointAuth, Trigger, Where } from '../../domain/spec.ts';
import { checkCron, checkTimezone, neverFires } from '../schedule/schedule.ts';
import { checkChecks } from './check-checks.ts';
import { noPayloadPrefix } from './check-prompts.ts';
import type { RoutingDraft } from './check-routing.ts';
import { checkRouting } from './check-routing.ts';
import { checkWhere } from './check-where.ts';
import type { Check, MapSpot, Reader, NodeRef } from './read.ts';
import {
  boolean,
  compact,
  fault,
  faultAt,
  field,
  items,
  layerOf,
  longerThan,
  map,
  missing,
  oneOf,
  optional,
  pathOf,
  required,
  resourceName,
  strict,
  string,
  suggest,
  text,
  wrong,
} from './read.ts';

/** One authored trigger entry: what it expands to, and the places that cross checks and lint point at. */
export interface TriggerDraft {
  readonly spot: MapSpot;
  readonly triggers: readonly Trigger[];
  /** The event keys with the place of each; empty for a heartbeat. */
  readonly events: readonly { readonly key: string; readonly spot: NodeRef }[];
  readonly routing: RoutingDraft | undefined;
  readonly where: Where;
  readonly whereSpot: MapSpot | undefined;
  readonly endpoint:
    | { readonly name: string; readonly spot: NodeRef; readonly auth?: EndpointAuth; readonly authSpot?: NodeRef }
    | undefined;
}

const EVENT_KEYS = [
  'kind',
  'name',
  'event',
  'events',
  'connection',
  'optional',
  'endpoint',
  'auth',
  'where',
  'message',
  'attachedUserPrompt',
  'checks',
  'fallback',
  'routing',
];
const HEARTBEAT_KEYS = ['kind', 'name', 'cron', 'timezone', 'where', 'message', 'fallback', 'routing'];
const NOT_ON_HEARTBEATS = [
  'event',
  'events',
  'connection',
  'optional',
  'endpoint',
  'auth',
  'checks',
  'attachedUserPrompt',
];
const CHECKS_EVENT = DIAGNOSTIC_CODES['checks-event'];
const ONLY_ON_HEARTBEATS = ['cron', 'timezone'];

export const checkTriggers: Reader<readonly TriggerDraft[]> = (check, spot) => {
  const drafts: TriggerDraft[] = [];
  for (const item of items(check, spot, 'a list of triggers') ?? []) {
    const found = map(check, item, 'a trigger');
    const draft = found && checkTrigger(check, found);
    if (draft !== undefined) drafts.push(draft);
  }
  return drafts;
};

function checkTrigger(check: Check, spot: MapSpot): TriggerDraft | undefined {
  const kind = optional(check, spot, 'kind', oneOf(['event', 'heartbeat'] as const));
  if (kind === undefined && spot.node.entries.has('kind')) return undefined;
  const isHeartbeat = kind === 'heartbeat';
  knownKeys(check, spot, isHeartbeat);
  optional(check, spot, 'name', text({ what: 'a name' }));
  return isHeartbeat ? checkHeartbeat(check, spot) : checkEvent(check, spot);
}

function knownKeys(check: Check, spot: MapSpot, isHeartbeat: boolean): void {
  const [own, foreign] = isHeartbeat ? [HEARTBEAT_KEYS, NOT_ON_HEARTBEATS] : [EVENT_KEYS, ONLY_ON_HEARTBEATS];
  const rest = [...spot.node.entries.keys()].filter((key) => !own.includes(key));
  if (rest.length === 0) return;
  const entries = new Map([...spot.node.entries].filter(([key]) => !foreign.includes(key)));
  strict(check, { ...spot, node: { ...spot.node, entries } }, own);
  const kindSpot = field(spot, 'kind');
  for (const key of rest) {
    const at = foreign.includes(key) ? field(spot, key) : undefined;
    if (at === undefined) continue;
    const layer = layerOf(at.key.file, kindSpot);
    if (isHeartbeat && key === 'checks') {
      fault(check, 'checks-event', `${CHECKS_EVENT}, not for heartbeats${layer}`, at.key, pathOf(at.trail));
      continue;
    }
    const message = isHeartbeat ? `${key} is not accepted on a heartbeat trigger` : `${key} needs kind: heartbeat`;
    fault(check, 'trigger-field', message + layer, at.key, pathOf(at.trail));
  }
}

/** What events and heartbeats share. */
function checkShared(check: Check, spot: MapSpot) {
  const whereAt = field(spot, 'where');
  const where = (whereAt && checkWhere(check, whereAt)) ?? {};
  const message = optional(check, spot, 'message', (_, at) =>
    noPayloadPrefix(check, at, text({ most: 20_000 })(check, at)),
  );
  const fallback = optional(check, spot, 'fallback', boolean) ?? false;
  const routing = required(check, spot, 'routing', checkRouting, 'Write routing: { kind: spawn }, deliver or bind.');
  const whereSpot = whereAt?.node.kind === 'map' ? (whereAt as MapSpot) : undefined;
  return { where, whereSpot, message, fallback, routing };
}

function checkHeartbeat(check: Check, spot: MapSpot): TriggerDraft {
  const cron = required(check, spot, 'cron', cronText);
  const timezone = field(spot, 'timezone') === undefined ? 'UTC' : optional(check, spot, 'timezone', timezoneText);
  const shared = checkShared(check, spot);
  const { where, whereSpot, message, fallback, routing } = shared;
  if (routing?.routing.kind === 'bind' && routing.routing.observedTarget !== undefined) observed(check, routing);
  const triggers: Trigger[] = [];
  if (cron !== undefined && timezone !== undefined && routing !== undefined) {
    triggers.push(
      compact<Trigger>({ kind: 'heartbeat', cron, timezone, where, message, fallback, routing: routing.routing }),
    );
  }
  return { spot, triggers, events: [], routing, where, whereSpot, endpoint: undefined };
}

const cronText: Reader<string> = (check, spot) => {
  const value = text({ most: 512, what: 'a cron expression in quotes' })(check, spot);
  if (value === undefined) return undefined;
  const problem = checkCron(value);
  if (problem !== null) return faultAt(check, 'cron-invalid', `${pathOf(spot.trail)}: ${problem}`, spot);
  if (neverFires(value)) {
    const message = 'No month has a day that this cron expression names; the trigger applies and never fires';
    const place = { range: spot.node.range, path: pathOf(spot.trail) };
    check.report({ severity: 'warning', code: 'cron-never-fires', message, ...place });
  }
  return value;
};

const timezoneText: Reader<string> = (check, spot) => {
  const value = text({ most: 128, what: 'the name of a time zone' })(check, spot);
  if (value === undefined || checkTimezone(value)) return value;
  return wrong(check, spot, 'a time zone by its IANA name, such as Europe/Paris', { code: 'timezone-invalid' });
};

type Keys = TriggerDraft['events'];

function checkEvent(check: Check, spot: MapSpot): TriggerDraft {
  const events = eventKeys(check, spot);
  const connection = optional(check, spot, 'connection', resourceName);
  const isOptional = optional(check, spot, 'optional', boolean);
  const endpoint = optional(check, spot, 'endpoint', resourceName);
  const auth = optional(check, spot, 'auth', checkAuth);
  const shared = checkShared(check, spot);
  const attachedUserPrompt = optional(check, spot, 'attachedUserPrompt', attachedPrompt);
  const checks = optional(check, spot, 'checks', checkChecks);
  const { where, whereSpot, message, fallback, routing } = shared;
  checkFamilies(check, spot, events);
  checkAgainstEvents(check, spot, events, routing);
  const triggers: Trigger[] =
    routing === undefined
      ? []
      : events.map(({ key }) =>
          compact<Trigger>({
            kind: 'event',
            event: key,
            connection,
            optional: isOptional,
            endpoint,
            auth,
            where,
            message,
            attachedUserPrompt,
            checks: checks as readonly CheckSpec[] | undefined,
            fallback,
            routing: routing.routing,
          }),
        );
  const at = field(spot, 'endpoint');
  const declared =
    endpoint === undefined || at === undefined
      ? undefined
      : compact<NonNullable<TriggerDraft['endpoint']>>({
          name: endpoint,
          spot: at,
          auth,
          authSpot: field(spot, 'auth'),
        });
  return { spot, triggers, events, routing, where, whereSpot, endpoint: declared };
}

function eventKeys(check: Check, spot: MapSpot): Keys {
  const one = field(spot, 'event');
  const many = field(spot, 'events');
  if (one !== undefined && many !== undefined) {
    const isLayered = one.key.file !== many.key.file;
    const layers = isLayered ? `; event comes from ${one.key.file}, events from ${many.key.file}` : '';
    const message = `${DIAGNOSTIC_CODES['event-and-events']}${layers}`;
    fault(check, 'event-and-events', message, one.key, pathOf(one.trail));
    fault(check, 'event-and-events', message, many.key, pathOf(many.trail));
  }
  if (one === undefined && many === undefined) {
    const first = spot.node.entries.values().next().value;
    fault(
      check,
      'event-missing',
      DIAGNOSTIC_CODES['event-missing'],
      first?.keyRange ?? spot.node.range,
      pathOf(spot.trail),
    );
  }
  const list = many === undefined ? [] : (items(check, many, 'a list of event keys', 1) ?? []);
  const keys: { key: string; spot: NodeRef }[] = [];
  const seen = new Set<string>();
  for (const item of one === undefined ? list : [one, ...list]) {
    const key = eventKey(check, item);
    if (key === undefined) continue;
    const isRepeated = seen.has(key);
    if (isRepeated)
      faultAt(check, 'invalid-value', `${pathOf(item.trail)} repeats ${key.slice(0, 80)}; name each event once`, item);
    else keys.push({ key, spot: item });
    if (item !== one) seen.add(key);
  }
  return keys;
}

const eventKey: Reader<string> = (check, spot) => {
  const key = text({ trim: true, what: 'an event key' })(check, spot);
  if (key === undefined || sourceOf(key) !== null) return key;
  const prefix = key.split('.', 1)[0] ?? '';
  const near = suggest(check, prefix, EVENT_SOURCES);
  const meant = keyOfAnySource(check, key);
  const known = `Event keys begin with ${EVENT_SOURCES.map((source) => `${source}.`).join(' ')}`;
  const guess = meant ?? (near === undefined || near === prefix ? undefined : `${near}.`);
  const hint = guess === undefined ? known : `Did you mean ${guess}? ${known}`;
  const shown = JSON.stringify(key.slice(0, 80).toWellFormed());
  return faultAt(check, 'event-provider', `${DIAGNOSTIC_CODES['event-provider']}: ${shown}`, spot, { hint });
};

/** The known key that is the same behind its first segment: `<product>.pull_request.opened`. */
function keyOfAnySource(check: Check, key: string): string | undefined {
  const rest = key.slice(key.indexOf('.') + 1);
  const tails = [...KNOWN_EVENTS].map((known) => known.slice(known.indexOf('.') + 1));
  const near = key.includes('.') ? suggest(check, rest, tails) : undefined;
  return near === undefined ? undefined : [...KNOWN_EVENTS][tails.indexOf(near)];
}

const sourcesOf = (events: Keys): ReadonlySet<EventSource> =>
  new Set(events.map(({ key }) => sourceOf(key)).filter((source) => source !== null));

/** `connection`, `endpoint` and `auth` against the sources of the events (docs/reference/events.md; docs/reference/compile.md#triggers). */
function checkFamilies(check: Check, spot: MapSpot, events: Keys): void {
  const sources = sourcesOf(events);
  const connection = field(spot, 'connection');
  const without = [...sources].filter((source) => SOURCE_NEEDS[source] !== 'connection');
  if (connection !== undefined && without.length > 0) {
    const layer = layerOf(connection.key.file, events[0]?.spot, 'event');
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
      `${name} is accepted only on webhook events, not on ${foreign.join(' and ')}${layerOf(at.key.file, events[0]?.spot, 'event')}`,
      at.key,
      pathOf(at.trail),
    );
  }
  const webhook = events.find(({ key }) => sourceOf(key) === 'webhook');
  if (webhook !== undefined && field(spot, 'endpoint') === undefined) {
    faultAt(
      check,
      'trigger-endpoint',
      `The event ${webhook.key.slice(0, 80)} requires endpoint, the name of a webhook endpoint`,
      webhook.spot,
    );
  }
}

function observed(check: Check, routing: RoutingDraft, events: Keys = []): void {
  const at = routing.observedSpot;
  if (at === undefined) return;
  const message = `observedTarget is accepted only with target: svc.session on ${BINDING_EVENTS.join(', ')}`;
  const layer = layerOf(at.key.file, events[0]?.spot, 'event') || layerOf(at.key.file, routing.aimSpot, 'target');
  fault(check, 'observed-target', message + layer, at.key, pathOf(at.trail));
}

function checkAgainstEvents(check: Check, spot: MapSpot, events: Keys, routing: RoutingDraft | undefined): void {
  const attached = field(spot, 'attachedUserPrompt');
  if (attached !== undefined && routing !== undefined && routing.routing.kind !== 'spawn') {
    const layer = layerOf(attached.key.file, routing.kindSpot, 'routing');
    const message = `${DIAGNOSTIC_CODES['attached-prompt']}, not for ${routing.routing.kind}${layer}`;
    fault(check, 'attached-prompt', message, attached.key, pathOf(attached.trail));
  }
  const checks = field(spot, 'checks');
  const other = events.find(({ key }) => !key.startsWith(CHECK_EVENTS_PREFIX));
  if (checks !== undefined && other !== undefined) {
    const message = `${CHECKS_EVENT}, not for ${other.key.slice(0, 80)}${layerOf(checks.key.file, other.spot, 'event')}`;
    fault(check, 'checks-event', message, checks.key, pathOf(checks.trail));
  }
  if (routing?.routing.kind === 'bind' && routing.routing.observedTarget !== undefined) {
    const legal = routing.routing.target === 'svc.session' && events.every(({ key }) => BINDING_EVENTS.includes(key));
    if (!legal) observed(check, routing, events);
  }
  if (events.length === 0 || routing === undefined) return;
  attributedAuthored(check, spot, events, routing);
}

/** A chat delivery to attributed sessions must leave out what the service itself wrote (docs/reference/routing.md#matching, 3; docs/reference/compile.md#rules-across-triggers). */
function attributedAuthored(check: Check, spot: MapSpot, events: Keys, draft: RoutingDraft): void {
  const { routing, aimSpot } = draft;
  if (routing.kind !== 'deliver' || routing.routeBy?.kind !== 'attributedSessions') return;
  if (!events.some(({ key }) => key.startsWith('chat.message.'))) return;
  const where = field(spot, 'where');
  const clause = where?.node.kind === 'map' ? field(where as MapSpot, '$.svc.authored') : undefined;
  if (clause?.node.kind === 'scalar' && clause.node.value === false) return;
  const message = 'A chat.message trigger with routeBy attributedSessions must filter $.svc.authored equal to false';
  faultAt(check, 'attributed-authored', message, clause ?? aimSpot ?? draft.kindSpot, {
    hint: 'Add "$.svc.authored: false" to where.',
  });
}

const attachedPrompt: Reader<string> = (check, spot) => {
  const value = string(check, spot);
  if (value === undefined) return undefined;
  if (value.trim() === '') return faultAt(check, 'invalid-value', `${pathOf(spot.trail)} must not be empty`, spot);
  if (!longerThan(value, 20_000)) return value;
  return faultAt(check, 'invalid-value', `${pathOf(spot.trail)} must have at most 20,000 characters`, spot);
};

/** Caller authentication of a webhook endpoint (docs/reference/webhook-endpoints.md#declaring; docs/reference/compile.md#triggers). */
const checkAuth: Reader<EndpointAuth> = (check, spot) => {
  const found = strict(check, spot, ['kind', 'secretRef']);
  const kind = found && required(check, found, 'kind', oneOf(['hmac_sha256', 'bearer_token', 'none'] as const));
  if (found === undefined || kind === undefined) return undefined;
  const secret = field(found, 'secretRef');
  if (kind === 'none') {
    if (secret === undefined) return { kind };
    const message = `auth.kind none takes no secretRef${layerOf(secret.key.file, field(found, 'kind'))}`;
    return fault(check, 'trigger-endpoint', message, secret.key, pathOf(secret.trail));
  }
  if (secret === undefined) return missing(check, found, 'secretRef', 'Name the project secret that callers prove.');
  const secretRef = resourceName(check, secret);
  return secretRef === undefined ? undefined : { kind, secretRef };
};

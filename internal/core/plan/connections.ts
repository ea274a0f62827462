// Which connection a trigger or a tool means, and whether it may be used (docs/reference/events.md, Trigger resource, Tools).

import type { EventTrigger, Tool } from '../../domain/spec.ts';
import { fitsNeed, toolNeeds } from '../../domain/tool-needs.ts';
import type { Facts } from './facts.ts';
import type { DesiredResource, TriggerStatus } from './types.ts';
import type { Report } from './report.ts';

const SOURCES = ['codehost', 'tracker', 'chat'] as const;
type Source = (typeof SOURCES)[number];

/** The connected source of an event key, or undefined for `svc.` and `webhook.` keys, which take no connection. */
function sourceOf(event: string): Source | undefined {
  const prefix = event.slice(0, event.indexOf('.'));
  return SOURCES.find((source) => source === prefix);
}

export interface ResolvedTrigger {
  readonly connectionId: string | null;
  readonly status: TriggerStatus;
}
const ACTIVE: ResolvedTrigger = { connectionId: null, status: 'active' };
const SKIPPED: ResolvedTrigger = { connectionId: null, status: 'skipped' };

interface TriggerAt {
  readonly agent: DesiredResource;
  readonly ordinal: number;
  readonly trigger: EventTrigger;
}

/** The connection of an event trigger: the named one, or the only active one of its source. */
export function resolveTrigger(facts: Facts, at: TriggerAt, report: Report): ResolvedTrigger {
  const source = sourceOf(at.trigger.event);
  if (source === undefined) return ACTIVE;
  return at.trigger.connection === undefined
    ? resolveOnly(facts, at, source, report)
    : resolveNamed(facts, at, source, at.trigger.connection, report);
}

function resolveNamed(facts: Facts, at: TriggerAt, source: Source, name: string, report: Report): ResolvedTrigger {
  const connection = facts.connectionByName.get(name);
  if (connection !== undefined && connection.provider === source && connection.active) {
    return { connectionId: connection.id, status: 'active' };
  }
  if (at.trigger.optional === true) return SKIPPED;
  const path = ['triggers', at.ordinal, 'connection'];
  const hint = `Add the connection, or set optional: true to skip the trigger until it is there.`;
  if (connection?.provider === source) {
    // The key is left out: several keys share one `connection`, and one mistake is told once (docs/reference/compile.md#files).
    const message = `Connection ${name} has no active grant, and ${source} events need one`;
    report({ resource: at.agent, path, code: 'connection-inactive', message, hint });
  } else {
    const what = connection === undefined ? 'does not exist' : `is a ${connection.provider} connection`;
    const message = `Connection ${name} ${what}; ${source} events need a ${source} connection`;
    report({ resource: at.agent, path, code: 'connection-missing', message, hint });
  }
  return SKIPPED;
}

function resolveOnly(facts: Facts, at: TriggerAt, source: Source, report: Report): ResolvedTrigger {
  const candidates = facts.current.connections.filter((item) => item.provider === source && item.active);
  const [first] = candidates;
  if (first !== undefined && candidates.length === 1) return { connectionId: first.id, status: 'active' };
  const path = ['triggers', at.ordinal, 'event'];
  if (candidates.length > 1) {
    const names = candidates.map((item) => item.name).sort();
    const message = `${at.trigger.event} does not say which ${source} connection it means; the project has ${names.join(', ')}`;
    const hint = `Name one with connection: ${names[0]}.`;
    report({ resource: at.agent, path, code: 'connection-ambiguous', message, hint });
    return SKIPPED;
  }
  if (at.trigger.optional === true) return SKIPPED;
  const message = `${at.trigger.event} needs an active ${source} connection, and the project has none`;
  const hint = 'Add the connection, or set optional: true to skip the trigger until it is there.';
  report({ resource: at.agent, path, code: 'connection-missing', message, hint });
  return SKIPPED;
}

/** Every connection that a tool references has an active grant, unless the tool is optional (docs/reference/compile.md#tools). */
export function checkTool(facts: Facts, agent: DesiredResource, alias: string, tool: Tool, report: Report): void {
  for (const need of toolNeeds(tool)) {
    const connection = facts.connectionByName.get(need.connection);
    const fits = connection !== undefined && fitsNeed(connection, need);
    if (need.optional || (fits && connection.active)) continue;
    const path = ['tools', alias, ...need.path];
    const hint = 'Add the connection, or set optional: true to go without the tool until it is there.';
    if (fits) {
      const message = `Connection ${need.connection} has no active grant, and tool ${alias} needs it`;
      report({ resource: agent, path, code: 'connection-inactive', message, hint });
    } else {
      const what = connection === undefined ? 'does not exist' : `is a ${connection.product} connection`;
      const message = `Connection ${need.connection} ${what}; tool ${alias} needs one of provider ${need.provider}`;
      report({ resource: agent, path, code: 'connection-missing', message, hint });
    }
  }
}

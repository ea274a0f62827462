// An agent's world: what wakes it on the left, what it reaches on the right, as a picture beside the table of the same.

import type { Trigger } from '../../../../schemas/api/triggers.ts';
import { beginning, html, type Markup, Table } from './kit.ts';
import { pageHref, type Place } from './pages.ts';

/** Of an agent's spec, what this reads. */
export interface WorldSpec {
  readonly mounts?: readonly { readonly mountPath: string; readonly repository: string }[];
  readonly tools?: {
    readonly [alias: string]: {
      readonly kind: string;
      readonly provider?: string;
      readonly connection?: string;
      readonly url?: string;
      readonly disabled?: boolean;
    };
  };
  readonly manages?: readonly string[];
}

interface Node {
  readonly side: 'in' | 'out';
  readonly kind: string;
  readonly name: string;
  readonly href?: string;
}

function nodesOf(place: Place, triggers: readonly Trigger[], spec: WorldSpec): Node[] {
  const nodes: Node[] = triggers.map((one): Node => {
    if (one.kind === 'heartbeat')
      return { side: 'in', kind: 'schedule', name: one.cron ?? one.event, href: pageHref(place, 'schedules') };
    if (one.endpoint !== undefined)
      return {
        side: 'in',
        kind: 'endpoint',
        name: `${one.endpoint}: ${one.event}`,
        href: pageHref(place, 'endpoints', one.endpoint),
      };
    const name = one.connection === undefined ? one.event : `${one.connection}: ${one.event}`;
    return {
      side: 'in',
      kind: 'event',
      name,
      href: `${pageHref(place, 'events')}?key=${encodeURIComponent(one.event)}`,
    };
  });
  for (const { mountPath, repository } of spec.mounts ?? [])
    nodes.push({ side: 'out', kind: 'mount', name: `${repository} at ${mountPath}` });
  for (const [alias, tool] of Object.entries(spec.tools ?? {})) {
    if (tool.disabled === true) continue;
    const to = tool.connection ?? tool.provider ?? tool.url;
    const isConnection = tool.connection !== undefined;
    nodes.push({
      side: 'out',
      kind: isConnection ? 'connection' : 'tool',
      name: to === undefined ? alias : `${alias}: ${to}`,
      ...(isConnection && { href: pageHref(place, 'connections') }),
    });
  }
  for (const agent of spec.manages ?? [])
    nodes.push({ side: 'out', kind: 'may stop', name: agent, href: pageHref(place, 'agents', agent) });
  return nodes;
}

const width = 960;
const rowHeight = 30;
const boxWidth = 340;
const most = 12;

export function AgentWorld(props: {
  readonly place: Place;
  readonly name: string;
  readonly spec: WorldSpec;
  readonly triggers: readonly Trigger[];
}): Markup {
  const { place, name, spec, triggers } = props;
  const nodes = nodesOf(place, triggers, spec);
  const columns = [{ title: 'Way' }, { title: 'Kind' }, { title: 'What' }];
  return html`<div class="world" data-testid="agent-world">
    <div class="scroll" role="region" aria-label="World of the agent" tabIndex=${0}><${Picture} name=${name} nodes=${nodes} /></div>
    <details><summary>The same as a table</summary><${Table} label="World of the agent" columns=${columns}>
      ${nodes.map((node) => html`<tr><td>${node.side === 'in' ? 'wakes it' : 'it reaches'}</td><td>${node.kind}</td><td>${node.href === undefined ? node.name : html`<a href=${node.href}>${node.name}</a>`}</td></tr>`)}<//></details></div>`;
}

function Picture(props: { readonly name: string; readonly nodes: readonly Node[] }): Markup {
  const column = (side: Node['side']): readonly Node[] => {
    const all = props.nodes.filter((node) => node.side === side);
    if (all.length <= most) return all;
    return [...all.slice(0, most - 1), { side, kind: `${all.length - most + 1} more`, name: 'in the table' }];
  };
  const left = column('in');
  const right = column('out');
  const height = Math.max(left.length, right.length, 2) * rowHeight + 10;
  const middle = height / 2;
  const yOf = (index: number, count: number): number => middle + (index - (count - 1) / 2) * rowHeight;
  const cut = (text: string): string => beginning(text, 42);
  const box = (node: Node, index: number, all: readonly Node[]): Markup => {
    const y = yOf(index, all.length);
    const x = node.side === 'in' ? 0 : width - boxWidth;
    const text = `${node.kind}: ${node.name}`;
    const [from, to] = node.side === 'in' ? [boxWidth, width / 2 - 90] : [width / 2 + 90, width - boxWidth];
    return html`<g><path class="edge" d=${`M${from} ${node.side === 'in' ? y : middle} L${to} ${node.side === 'in' ? middle : y}`}></path>
      <rect class="node" x=${x} y=${y - 12} width=${boxWidth} height="24" rx="4"></rect><text class="lane" x=${x + 8} y=${y + 5}>${cut(text)}<title>${text}</title></text></g>`;
  };
  return html`<svg class="picture" viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${`${left.length} things wake ${props.name}, and it reaches ${right.length}; the table below says the same`}>
    ${left.map(box)}${right.map(box)}
    <rect class="node self" x=${width / 2 - 90} y=${middle - 18} width="180" height="36" rx="6"></rect><text class="self" x=${width / 2} y=${middle + 5} text-anchor="middle">${props.name.length > 22 ? `${props.name.slice(0, 21)}…` : props.name}</text></svg>`;
}

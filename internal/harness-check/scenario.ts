// What the checks behind the daemon share: the agent, the ways to speak to its session, and to wait for what follows.

import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { modelName, systemPrompt } from './scene.ts';
import type { Service, View } from './service.ts';

/** What the checks share. */
export interface Scenario {
  readonly service: Service;
  /** The session that the first check starts. */
  session: string;
}
export interface ServiceCheck {
  readonly name: string;
  /** Returns what it found worth printing. */
  run(story: Scenario): Promise<string>;
}

export const agentName = 'gardener';
export const effort = 'low';
export const patienceMs = 60_000;

export const gardener = ({ harness }: Service, more: object = {}): object => ({
  harness,
  model: { provider: harness === 'harness-a' ? 'provider-a' : 'provider-b', id: modelName },
  reasoningEffort: effort,
  systemPrompt: systemPrompt,
  environment: { name: 'shed', image: { kind: 'preset', name: 'base' }, env: { BED: 'seven' } },
  tools: {
    svc: { kind: 'local', implementation: 'svc' },
    knock: { kind: 'local', implementation: 'ping' },
  },
  spendCaps: { maxPerSessionUsd: '10' },
  triggers: [
    {
      event: 'webhook.received',
      endpoint: 'plant',
      auth: { kind: 'none' },
      routing: { kind: 'spawn' },
      attachedUserPrompt: 'STUB TEXT roses are red',
      message: 'The bed is {{ bed }}.',
    },
    {
      event: 'webhook.received',
      endpoint: 'water',
      auth: { kind: 'none' },
      routing: { kind: 'deliver', routeBy: { kind: 'allLiveSessions' } },
      message: '{{ say }}',
    },
    {
      event: 'codehost.check_run.completed',
      routing: { kind: 'deliver', routeBy: { kind: 'allLiveSessions' } },
      message: 'STUB TEXT the check is over',
    },
  ],
  ...more,
});

export const told = ({ said }: View): string => said.map(({ text }) => text).join('\n');
export const isIdle = (view: View): boolean => view.state === 'idle' && Number(view.body['inbox']?.['pending']) === 0;
/** What it said since it was spoken to last: it grows as it comes, in rows that end anywhere. */
export const lastSaid = ({ said }: View): string =>
  said
    .slice(said.findLastIndex(({ role }) => role === 'user') + 1)
    .filter(({ role, kind }) => role === 'assistant' && kind === 'text')
    .map(({ text }) => text)
    .join('');
export const answered = (text: string) => (view: View) => isIdle(view) && lastSaid(view).includes(text);

export const say = async ({ service, session }: Scenario, text: string): Promise<void> => {
  const { status, body } = await service.api('POST', `P/sessions/${session}/messages`, { text });
  assert.equal(status, 202, JSON.stringify(body));
};

/** Starts a turn that speaks until it is cut, and waits until it is heard. */
export async function speaking(story: Scenario, mark: string): Promise<void> {
  const { service, session } = story;
  const before = (await service.view(session)).said.length;
  await say(story, `STUB SLOW ${mark}`);
  await service.until(session, 'it speaks', ({ state, said }) => {
    return state === 'running' && said.slice(before).some((one) => one.kind === 'text' && one.text.includes('slow'));
  });
}

/** The text of the user's side of a recorded request. */
export const textOf = (request: { readonly body: object } | undefined): string => JSON.stringify(request?.body ?? {});

/** The harness's own shell. */
export function shell({ harness }: Service, command: string): string {
  const input = harness === 'harness-a' ? { command, description: 'looks around' } : { cmd: command };
  return `STUB TOOL ${harness === 'harness-a' ? 'Bash' : 'exec_command'} ${JSON.stringify(input)}`;
}

/** Starts a session by hand, with no trigger that would reach it. */
export async function byHand(
  { service }: Scenario,
  agent: string,
  message: string,
  more: object = {},
): Promise<string> {
  await service.apply({ [agent]: gardener(service, { triggers: [], ...more }) });
  const { body, status } = await service.api('POST', `P/agents/${agent}/sessions`, { message });
  assert.equal(status, 201, JSON.stringify(body));
  return String(body['id']);
}

export const end = async ({ service }: Scenario, session: string): Promise<void> => {
  assert.equal((await service.api('POST', `P/sessions/${session}/archive`)).status, 200);
};

export async function eventuallyAsync(what: string, isSo: () => Promise<boolean>, seen = () => ''): Promise<void> {
  const start = performance.now();
  while (!(await isSo())) {
    assert.ok(performance.now() - start < patienceMs, `${what} within ${patienceMs} ms: ${seen()}`);
    await wait(50);
  }
}

// For tests of chat and the tracker: the simulators, a daemon whose connections lead there, and deliveries of the
// provider, signed as it signs.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLog } from '../../base/log/log.ts';
import { chatToken, ChatSimulator } from '../../base/testkit/chat-simulator.ts';
import type { Config } from '../../base/config/config.ts';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';

const signingSecret = 'the-signing-secret';

export interface ChatBench extends ToolBench {
  readonly sim: ChatSimulator;
  log(): string;
  /** A message of a person arrives. */
  hear(event: object): Promise<void>;
  /** Sits in the session that the next event of an agent started; waits for it. */
  sessionOf(agent: string): Promise<Seat>;
  /** Ids of the connections by name. */
  readonly connections: { readonly [name: string]: string };
  stopAll(): Promise<void>;
}

export const chatTool = {
  kind: 'local',
  implementation: 'chat',
  auth: { kind: 'connection', provider: 'chat', connection: 'team' },
};

export async function startChatBench(config: Partial<Config> = {}): Promise<ChatBench> {
  const sim = await new ChatSimulator().start();
  for (const id of ['C1', 'C2']) sim.channels.set(id, []);
  const file = { providers: { chat: { apiUrl: sim.url, fileHosts: [sim.host] } } };
  let log = '';
  const bench = await createToolBench({
    log: createLog('trace', { write: (line: string) => void (log += line) }),
    config: { allowPrivateNetwork: true, file, ...config },
  });
  const connections: { [name: string]: string } = {};
  for (const [name, workspaceId] of [
    ['team', undefined],
    ['other', 'T2'],
  ] as const) {
    const { status, body } = await bench.daemon.api('POST', 'P/connections', {
      provider: 'chat',
      name,
      config: { ...(workspaceId !== undefined && { workspaceId }), botUserId: 'U-BOT' },
      credentials: { signingSecret, botToken: chatToken },
    });
    assert.equal(status, 201, JSON.stringify(body));
    connections[name] = String(body['id']);
  }
  const seen = new Set<string>();
  return {
    ...bench,
    sim,
    connections,
    log: () => log,
    async hear(event) {
      const at = String(Math.floor(bench.daemon.ctx.runtime.now().getTime() / 1_000));
      const raw = JSON.stringify({
        type: 'event_callback',
        team_id: 'T1',
        api_app_id: 'A1',
        event_id: `Ev${randomUUID()}`,
        event,
        authorizations: [{ team_id: 'T1', user_id: 'U-BOT', is_bot: true }],
      });
      const signature = createHmac('sha256', signingSecret).update(`v0:${at}:${raw}`).digest('hex');
      const answer = await fetch(`${bench.daemon.url}/api/v1/intake/chat/${connections['team']}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-slack-request-timestamp': at,
          'x-slack-signature': `v0=${signature}`,
        },
        body: raw,
      });
      assert.equal(answer.status, 202, await answer.text());
    },
    async sessionOf(agent) {
      for (;;) {
        const { body } = await bench.daemon.api('GET', `P/sessions?agent=${agent}`);
        const found = (body['items'] as unknown as { id: string }[]).find((one) => !seen.has(one.id));
        if (found !== undefined) {
          seen.add(found.id);
          return bench.sit(found.id);
        }
        await sleep(50);
      }
    },
    async stopAll() {
      await bench.stop();
      await sim.stop();
    },
  };
}

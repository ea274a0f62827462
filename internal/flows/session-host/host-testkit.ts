// For tests of running sessions: a daemon with the scripted agent behind both harnesses, agents by a few lines, and a way
// to wait for what the API shows.

import { setTimeout as sleep } from 'node:timers/promises';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import type { Config } from '../../base/config/config.ts';
import { type JsonBody, startTestDaemon, type TestDaemon, type TestDaemonOptions } from '../../base/testkit/daemon.ts';
import { Fault } from '../../domain/fault.ts';
import { heardUnder } from './host-crash-testkit.ts';

export interface SessionView {
  readonly state: string;
  readonly reason: string | null;
  readonly body: JsonBody;
  /** Texts of the transcript, in order. */
  readonly texts: readonly string[];
  /** All that the agent has said, in one piece: how its text is cut into messages is a matter of time. */
  readonly said: string;
  readonly messages: readonly { readonly role: string; readonly kind: string; readonly text: string }[];
}

export interface TurnView {
  readonly number: number;
  readonly state: string;
  readonly stopReason: string | null;
  readonly error: string | null;
}

export interface HostBench {
  readonly daemon: TestDaemon;
  /** Stores these agents and no others, each with the harness, environment and defaults of a plain agent. */
  apply(agents: { readonly [name: string]: object }): Promise<void>;
  /** Starts a session by hand; its id. */
  start(agent: string, message: string, input?: object): Promise<string>;
  /** Says something to it, as an operator does. */
  send(session: string, text: string): Promise<void>;
  view(session: string): Promise<SessionView>;
  turns(session: string): Promise<readonly TurnView[]>;
  /** What its harness has been told, as the scripted agent keeps it: prompts of all its processes, in order. */
  heard(session: string): Promise<readonly string[]>;
  /** Waits until the session is as wanted; fails with what it is like after two minutes. */
  until(session: string, wanted: (view: SessionView) => boolean): Promise<SessionView>;
  stop(): Promise<void>;
}

const patienceMs = 120_000;
/** What else there is to see of a session is looked at as often as this. */
const restMs = 500;

/** `lacks`: a harness whose program is not there. */
export async function createHostBench(
  options: TestDaemonOptions & { readonly lacks?: 'harness-b' } = {},
): Promise<HostBench> {
  const config: Partial<Config> = {
    harnessACommand: scriptedAgent,
    ...(options.lacks === undefined && { harnessBCommand: scriptedAgent }),
    sandbox: 'process',
    ...options.config,
  };
  const daemon = await startTestDaemon({ ...options, config });
  const { api } = daemon;
  const view = async (session: string): Promise<SessionView> => {
    const [{ body }, said] = [
      await api('GET', `P/sessions/${session}`),
      await api('GET', `P/sessions/${session}/messages?limit=200`),
    ];
    if (said.status === 503) throw new Fault('unavailable', 'unavailable', `messages: ${JSON.stringify(said.body)}`);
    const items = said.body['items'] as unknown as SessionView['messages'];
    return {
      state: String(body['state']),
      reason: (body['reason'] as unknown as string | undefined) ?? null,
      body,
      messages: items,
      texts: items.map((one) => one.text),
      said: items.flatMap((one) => (one.kind === 'text' ? [one.text] : [])).join(''),
    };
  };
  return {
    daemon,
    async apply(agents) {
      const files = Object.entries(agents).map(([name, spec]) => ({
        path: `.svc/agents/${name}.yaml`,
        content: JSON.stringify({
          name,
          harness: 'harness-a',
          environment: { name: 'base', image: { kind: 'preset', name: 'base' } },
          ...spec,
        }),
      }));
      const { status, body } = await api('POST', 'P/apply', { files });
      if (status !== 200) throw new Error(`apply: ${status} ${JSON.stringify(body)}`);
    },
    async start(agent, message, input) {
      const { status, body } = await api('POST', `P/agents/${agent}/sessions`, { message, ...(input && { input }) });
      if (status !== 201) throw new Error(`start: ${status} ${JSON.stringify(body)}`);
      return String(body['id']);
    },
    view,
    async send(session, text) {
      const { status, body } = await api('POST', `P/sessions/${session}/messages`, { text });
      if (status >= 300) throw new Error(`send: ${status} ${JSON.stringify(body)}`);
    },
    turns: (session) => turnsOf(daemon, session),
    heard: (session) => heardUnder(daemon.dataDir, session),
    until: (session, wanted) => untilSeen(daemon, session, view, wanted),
    stop: () => daemon.stop(),
  };
}

async function untilSeen(
  daemon: TestDaemon,
  session: string,
  view: HostBench['view'],
  wanted: (view: SessionView) => boolean,
): Promise<SessionView> {
  const begun = performance.now();
  let mark: string | undefined;
  let lookedAt = -restMs;
  for (;;) {
    try {
      const now = await markOf(daemon, session);
      if (now === undefined || now !== mark || performance.now() - lookedAt >= restMs) {
        [mark, lookedAt] = [now, performance.now()];
        const seen = await view(session);
        // Two reads: a session that was idle before the words of its next turn were there is not idle after them.
        if (wanted(seen) && (seen.state !== 'idle' || (await markOf(daemon, session)) === now)) return seen;
        if (lookedAt - begun > patienceMs) throw new Error(`session ${session} stays ${JSON.stringify(seen, null, 1)}`);
      }
    } catch (error) {
      // A look that a crowded machine gave no connection says nothing of the session.
      if (!(error instanceof Fault && error.kind === 'unavailable') || performance.now() - begun > patienceMs)
        throw error;
    }
    await sleep(50);
  }
}

/** Is another one when the session or its transcript is; both are read through the API only then, which costs ten times this. */
async function markOf({ database }: TestDaemon, session: string): Promise<string | undefined> {
  const { rows } = await database.db.query<{ mark: string }>(
    `select concat(s.xmin, ' ', (select max(m.seq) from svc.messages m where m.session_id = s.id)) as mark
       from svc.sessions s where s.id = $1::uuid`,
    [session],
  );
  return rows[0]?.mark;
}

async function turnsOf({ ctx }: TestDaemon, session: string): Promise<TurnView[]> {
  const { rows } = await ctx.db.query<TurnView>(
    `select number, state, stop_reason as "stopReason", error from svc.turns where session_id = $1::uuid
      order by number`,
    [session],
  );
  return rows;
}

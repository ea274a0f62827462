// What must hold of a real harness behind the daemon. The checks run in order on one session of one agent, from the
// webhook that starts it to its archive; each entry is one sentence.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { redelivered } from '../core/session/prompts.ts';
import { effortOf } from './checks.ts';
import { eventually, modelName, systemPrompt } from './scene.ts';
import { gatewayKey, modelPrice, type View } from './service.ts';
import {
  agentName,
  answered,
  byHand,
  effort,
  end,
  eventuallyAsync,
  gardener,
  lastSaid,
  patienceMs,
  say,
  type ServiceCheck,
  shell,
  speaking,
  type Scenario,
  textOf,
  told,
} from './scenario.ts';
import { tokens, toolCount } from './stub-model.ts';

const cli = join(import.meta.dirname, '../../cmd/svc/main.ts');

const launches: ServiceCheck = {
  name: 'a webhook starts a session, with model, effort, system prompt and hidden context on the wire',
  async run(story) {
    const { service } = story;
    await service.apply({ [agentName]: gardener(service) });
    const startedAt = performance.now();
    await service.hook('plant', { bed: 'marker-51c0' });
    await eventuallyAsync('a session is there', async () => (await service.sessions(agentName)).length === 1);
    [story.session = ''] = await service.sessions(agentName);
    const view = await service.until(story.session, 'it answers', answered('roses are red'));
    const took = performance.now() - startedAt;
    const { sandbox, hiddenContext } = view.body;
    assert.deepEqual({ sandbox: sandbox?.['provider'], fenced: sandbox?.['fenced'] }, service.place);
    const [request, ...others] = service.callsSince(0).filter(({ body }) => toolCount(body) > 0);
    assert.ok(request, 'the call of the turn was recorded');
    assert.equal(others.length, 0);
    assert.equal(request.body['model'], modelName);
    assert.equal(effortOf(request.body), effort);
    const text = textOf(request);
    assert.ok(text.includes(systemPrompt), 'the system prompt');
    assert.ok(text.includes('Trigger message context') && text.includes('marker-51c0'), 'the hidden context');
    assert.match(String(hiddenContext), /marker-51c0/);
    assert.ok(!told(view).includes('marker-51c0'), 'hidden context is no message');
    const { authorization, 'x-api-key': key } = request.headers;
    assert.ok(`${authorization} ${String(key)}`.includes(gatewayKey), 'the gateway put the provider’s key on');
    return `${took.toFixed(0)} ms from the webhook to the end of the first turn, effort ${String(effortOf(request.body))}`;
  },
};

const ledger: ServiceCheck = {
  name: 'the ledger holds what the model was asked, to the token',
  async run({ service, session }) {
    let seen = '';
    const isSo = async (): Promise<boolean> => {
      const { usage } = (await service.view(session)).body;
      const calls = service.model.requests.length;
      const expected = [calls, calls * tokens.input, calls * tokens.output];
      const counted = ['calls', 'inputTokens', 'outputTokens'].map((key) => Number(usage?.[key]));
      const cost = Number(usage?.['costUsd']) * 1_000_000;
      seen = `${counted.join('/')} for ${cost} millionths of a dollar, expected ${expected.join('/')}`;
      return (
        String(counted) === String(expected) && Math.round(cost) === calls * (tokens.input + tokens.output) * modelPrice
      );
    };
    await eventuallyAsync('the ledger agrees', isSo, () => seen);
    const { usage } = (await service.view(session)).body;
    for (const path of ['P/usage', `P/agents/${agentName}/usage`]) {
      assert.deepEqual((await service.api('GET', path)).body['total'], usage, path);
    }
    return seen.split(',')[0] ?? '';
  },
};

const tools: ServiceCheck = {
  name: 'it calls the service’s own tools',
  async run(story) {
    const { service, session } = story;
    await say(story, 'STUB TOOL svc_session_get {}');
    const view = await service.until(session, 'the tool answers', answered('the tool gave'));
    const result = view.said.findLast(({ kind }) => kind === 'tool_result');
    assert.ok(`${result?.text}${told(view)}`.includes(session), JSON.stringify(result));
    await say(story, 'STUB TOOL ping {}');
    const { said } = await service.until(session, 'the other tool answers', answered('pong'));
    const calls = said.filter(({ kind }) => kind === 'tool_call').map(({ text }) => text);
    return calls.join(', ');
  },
};

const fence: ServiceCheck = {
  name: 'its shell sees its environment, no key, nothing of the host, and where it is fenced no network but the channels',
  async run(story) {
    const { service, session } = story;
    const ports = [service.url(), service.model.url].map((url) => new URL(url).port);
    // The checkout's directory may be there, above the runtime that it brings; what is in it is not.
    const hidden = [`${service.dataDir}/svc.json`, `${process.cwd()}/package.json`];
    const reach = ports.map((port) => `(exec 3<>/dev/tcp/127.0.0.1/${port}) 2>&1 && echo open-${port}`);
    const count = (what: string): string => `$(cat /proc/[0-9]*/environ 2>&1 | tr '\\0' '\\n' | grep -c ${what})`;
    const look = [
      'echo bed is $BED',
      `bash -c '${reach.join('; ')}' 2>&1`,
      `ls -d ${hidden.join(' ')} 2>&1`,
      `echo "keys ${count(gatewayKey)}, of this session ${count(`SVC_SESSION_ID=${session}`)}"`,
      'echo "routes $(($(wc -l < /proc/net/route) - 1))"',
      'echo over-and-out',
    ];
    await say(story, shell(service, look.join('; ')));
    const view = await service.until(session, 'the shell answers', answered('over-and-out'));
    const text = lastSaid(view);
    assert.match(text, /bed is seven/);
    const result = view.said.findLast(({ kind }) => kind === 'tool_result');
    // Its end: of what comes before anybody listens one of them tells nothing.
    assert.match(result?.text ?? '', /over-and-out/, 'the transcript has what it wrote');
    for (const { argv } of service.processes(session)) {
      assert.doesNotMatch(
        argv.join(' '),
        /\/s\/[\w-]{43}|Bearer [\w-]{20}|[^\w-][\w-]{43}([^\w-]|$)/,
        'no argument list shows a token',
      );
    }
    if (service.place.sandbox === 'process') return 'NOT ISOLATED: it sees what its user sees';
    assert.match(text, /keys 0, of this session [1-9]/);
    for (const path of hidden) assert.ok(text.includes(`${path}': No such`), text);
    if (!service.place.fenced) return 'not fenced: the network of this machine is open to it';
    for (const port of ports) assert.ok(!text.includes(`open-${port}`), text);
    assert.match(text, /routes 0/);
    return `neither port ${ports.join(' nor ')} of this machine is open to it`;
  },
};

const beside: ServiceCheck = {
  name: 'a call beside the conversation that fails does not make a good turn a failed one',
  async run(story) {
    const { service } = story;
    const { model } = service;
    const count = model.requests.length;
    model.refuse(500, 'beside');
    const session = await byHand(story, 'untitled', 'STUB TEXT without a title');
    const view = await service.until(session, 'it answers', answered('without a title'));
    model.refuse(undefined);
    await end(story, session);
    assert.deepEqual([view.body['lastTurn']?.['state'], Number(view.body['turns'])], ['done', 1]);
    const refused = model.requests.slice(count).filter(({ body }) => toolCount(body) === 0);
    // The other is kept from asking for a title by being given one.
    assert.equal(refused.length > 0, service.harness === 'harness-a');
    return `${refused.length} such calls`;
  },
};

const interrupt: ServiceCheck = {
  name: 'an event that interrupts cancels the turn, and its message goes in',
  async run(story) {
    const {
      service,
      session,
      service: { model },
    } = story;
    await speaking(story, 'of the sea');
    const count = model.requests.length;
    const start = performance.now();
    await service.hook('water', { say: 'STUB TEXT the rain came' });
    await service.until(session, 'the message is answered', answered('the rain came'));
    const took = performance.now() - start;
    assert.ok(
      model.requests.some((one) => one.leftEarly && textOf(one).includes('of the sea')),
      'the call was given up',
    );
    const [request] = service.callsSince(count);
    assert.ok(textOf(request).includes('the rain came'));
    const { said, body } = await service.view(session);
    const deliveries = said.flatMap(({ delivery }) => (delivery === undefined ? [] : [delivery]));
    assert.ok(
      deliveries.every(({ state, attempts }) => state === 'done' && attempts <= 1),
      JSON.stringify(deliveries),
    );
    return `${took.toFixed(0)} ms, after ${String(body['turns'])} turns`;
  },
};

const defer: ServiceCheck = {
  name: 'an event that defers waits until the session is idle',
  async run(story) {
    const {
      service,
      session,
      service: { model },
    } = story;
    await speaking(story, 'of the hills');
    await service.checkRun('ci');
    const isPending = ({ delivery }: View['said'][number]): boolean => delivery?.state === 'pending';
    const waiting = await service.until(session, 'the message waits', ({ said }) => said.some(isPending));
    assert.equal(waiting.said.find(isPending)?.delivery?.mode, 'defer');
    const turns = Number(waiting.body['turns']);
    await wait(2_000);
    const still = await service.view(session);
    assert.deepEqual([still.state, Number(still.body['turns'])], ['running', turns], 'the turn goes on');
    assert.ok(!model.requests.some((one) => one.leftEarly && textOf(one).includes('of the hills')));
    await say(story, 'STUB TEXT enough of hills');
    const { said } = await service.until(session, 'both went in', answered('the check is over'));
    const spoken = said.filter(({ role, kind }) => role === 'assistant' && kind === 'text').map(({ text }) => text);
    const [first, second] = ['enough of hills', 'the check is over'].map((text) => spoken.join('').lastIndexOf(text));
    assert.ok(Number(first) < Number(second), 'what interrupts goes before it, in a turn of its own');
    return 'it waited for the turn, and for what interrupted it';
  },
};

/** What must be so after something was killed in the middle of a turn that spoke of `mark`. */
async function recovered(story: Scenario, mark: string, count: number): Promise<string> {
  const { service, session } = story;
  const again = (): boolean =>
    service.callsSince(count).some((one) => textOf(one).includes(redelivered) && textOf(one).includes(mark));
  await eventually('the message goes in again', again, patienceMs);
  const request = service.callsSince(count).find((one) => textOf(one).includes(redelivered));
  const text = textOf(request);
  assert.ok(text.includes('roses are red'), 'the history is there');
  assert.ok(text.includes(systemPrompt) && text.includes('marker-51c0'), 'system prompt and hidden context are there');
  assert.equal(effortOf(request?.body ?? {}), effort);
  await say(story, `STUB TEXT back after ${mark}`);
  const view = await service.until(session, 'it goes on', answered(`back after ${mark}`));
  const cut = view.said.find((one) => one.role === 'user' && one.text.includes(`STUB SLOW ${mark}`));
  assert.deepEqual([cut?.delivery?.state, cut?.delivery?.attempts], ['done', 2]);
  assert.ok(view.said.some((one) => one.kind === 'notice' && one.text.includes('delivered again')));
  await say(story, 'STUB TOOL svc_session_get {}');
  await service.until(session, 'its tools are there', answered('the tool gave'));
  const times = text.split(`STUB SLOW ${mark}`).length - 1;
  return `the cut message is in the resumed conversation ${times} time(s), the last of them labelled`;
}

/** The adapter itself; not what started it, whose arguments name it too. */
const adapterOf = (story: Scenario): number | undefined =>
  story.service.processes(story.session).find(({ argv }) => argv[1]?.endsWith('/dist/index.js') === true)?.pid;

const killAdapter: ServiceCheck = {
  name: 'after SIGKILL of the adapter the session resumes with its history, and the cut message goes in labelled',
  async run(story) {
    const { service, session } = story;
    await speaking(story, 'of the wind');
    const count = service.model.requests.length;
    const pid = adapterOf(story);
    assert.ok(pid, `the adapter is among ${JSON.stringify(service.processes(session))}`);
    process.kill(pid, 'SIGKILL');
    return recovered(story, 'of the wind', count);
  },
};

const killDaemon: ServiceCheck = {
  name: 'after SIGKILL of the daemon nothing of the session runs on, and the next daemon takes it up',
  async run(story) {
    const { service, session } = story;
    await speaking(story, 'of the snow');
    const count = service.model.requests.length;
    await service.kill();
    await eventually('its processes are gone', () => service.processes(session).length === 0);
    const start = performance.now();
    await service.start();
    const found = await recovered(story, 'of the snow', count);
    return `${found}; ${(performance.now() - start).toFixed(0)} ms from the next start`;
  },
};

const cap: ServiceCheck = {
  name: 'at the cap the gateway answers 402 and the session is blocked; a raised cap lets it go on',
  async run(story) {
    const { service, session } = story;
    await service.apply({ [agentName]: gardener(service, { spendCaps: { maxPerSessionUsd: '0.000001' } }) });
    const count = service.model.requests.length;
    await say(story, 'STUB TEXT dear words');
    const blocked = await service.until(session, 'it is blocked', ({ state }) => state === 'blocked');
    assert.match(String(blocked.body['reason']), /0\.000001/);
    const metrics = String((await service.api('GET', '/metrics')).body);
    assert.match(metrics, /svc_model_refusals_total\{[^}]*status="402"[^}]*\} [1-9]/);
    assert.equal(service.model.requests.length, count, 'nothing went to the provider');
    await eventually('nothing of it runs', () => service.processes(session).length === 0);
    const { lastTurn } = (await service.view(session)).body;
    assert.deepEqual([lastTurn?.['state'], lastTurn?.['error']], ['failed', blocked.body['reason']]);
    await service.apply({ [agentName]: gardener(service) });
    const view = await service.until(session, 'it goes on', answered('dear words'));
    const dear = view.said.find((one) => one.role === 'user' && one.text.includes('dear words'));
    assert.deepEqual([dear?.delivery?.state, dear?.text], ['done', 'STUB TEXT dear words']);
    return `${String(blocked.body['reason'])} The turn ended as ${String(lastTurn?.['stopReason'])}`;
  },
};

const asks: ServiceCheck = {
  name: 'under approvals: prompt harness-b asks a person, and goes on with the answer; harness-a does not',
  async run(story) {
    const { service } = story;
    const environment = { name: 'gate', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' };
    const session = await byHand(story, 'asker', shell(service, 'echo dug > bed && cat bed'), { environment });
    // Inside its own sandbox, which stands in ours, neither has to ask.
    const view = await service.until(session, 'the shell answers', answered('dug'));
    assert.ok(!view.said.some(({ kind }) => kind === 'permission'));
    let found = 'nobody was asked';
    if (service.harness === 'harness-b') {
      const input = { cmd: 'echo deeper', sandbox_permissions: 'require_escalated', justification: 'to dig' };
      await say({ service, session }, `STUB TOOL exec_command ${JSON.stringify(input)}`);
      const { body } = await service.until(session, 'it asks', ({ state }) => state === 'waiting_permission');
      const asked = body['permissions']?.[0];
      assert.equal(asked?.['request']?.['category'], 'execute', JSON.stringify(asked));
      const path = `P/sessions/${session}/permissions/${String(asked?.['id'])}`;
      assert.equal((await service.api('POST', path, { decision: 'allow' })).status, 204);
      await service.until(session, 'the shell answers', answered('deeper'));
      found = `${String(asked?.['title'])} (${String(asked?.['request']?.['category'])})`;
    }
    await end(story, session);
    return found;
  },
};

const archive: ServiceCheck = {
  name: 'an archive leaves no process and no directory, and a transcript that can be read',
  async run(story) {
    const { service, session } = story;
    assert.notEqual(service.processes(session).length, 0);
    await end(story, session);
    await eventually('its processes are gone', () => service.processes(session).length === 0);
    const directory = join(service.dataDir, 'sandboxes', session);
    await eventually('its directory is gone', () => !existsSync(directory));
    const { said } = await service.view(session);
    const kinds = new Set(said.map(({ role, kind }) => `${role} ${kind}`));
    for (const kind of ['user prompt', 'assistant text', 'tool tool_call', 'tool tool_result', 'system notice']) {
      assert.ok(kinds.has(kind), `${kind} in ${[...kinds].join(', ')}`);
    }
    assert.deepEqual(
      said.map(({ seq }) => seq),
      said.map(({ seq }) => seq).toSorted((a, b) => a - b),
    );
    const { stdout } = await promisify(execFile)(process.execPath, [cli, 'session', 'logs', session], {
      env: { PATH: process.env['PATH'], HOME: service.dataDir, SVC_DATA_DIR: service.dataDir },
    });
    for (const text of ['STUB TEXT roses are red', 'roses are red', 'svc_session_get', 'delivered again']) {
      assert.ok(stdout.includes(text), `${text} in ${stdout}`);
    }
    return `${said.length} entries, ${stdout.split('\n').length} lines as people read them`;
  },
};

/** Those that an own network makes different. */
export const openChecks: readonly ServiceCheck[] = [launches, ledger, tools, fence];

export const serviceChecks: readonly ServiceCheck[] = [
  launches,
  ledger,
  tools,
  fence,
  beside,
  interrupt,
  defer,
  killAdapter,
  killDaemon,
  cap,
  asks,
  archive,
];

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Ajv } from 'ajv';
import { toolInputSchema, toolInputs, type ToolName } from '../../../schemas/tool-input.ts';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';

const svc = { kind: 'local', implementation: 'svc' };

describe('tools of the service, through the public door', () => {
  let bench: ToolBench;
  let boss: Seat;
  before(async () => {
    bench = await createToolBench();
    await bench.daemon.api('PUT', 'P/secrets/hook-key', { value: 'a-key-of-a-hook' });
    await bench.apply({
      boss: {
        manages: ['worker'],
        tools: { svc, knock: { kind: 'local', implementation: 'ping' } },
        triggers: [
          {
            event: 'webhook.received',
            endpoint: 'inbox',
            auth: { kind: 'hmac_sha256', secretRef: 'hook-key' },
            routing: { kind: 'spawn' },
          },
        ],
      },
      worker: {},
      single: { concurrency: 1 },
      mounted: {
        mounts: [{ kind: 'git', repository: 'o/r', mountPath: '/r', ref: '{{ payload.branch }}' }],
      },
    });
    boss = await bench.start('boss');
  });
  after(() => bench.stop());
  const audited = async (action: string): Promise<readonly string[]> => {
    const { body } = await bench.daemon.api('GET', `P/audit?limit=200`);
    const items = body['items'] as unknown as { action: string; principal: { kind: string; id: string } }[];
    return items.filter((one) => one.action === action).map((one) => `${one.principal.kind} ${one.principal.id}`);
  };

  it('are listed with strict schemas in which every property says what it is for', async () => {
    const { tools } = await (await boss.client()).listTools();
    const names = tools.map((tool) => tool.name);
    assert.deepEqual(
      names,
      (Object.keys(toolInputs) as ToolName[])
        .filter((name) => name.startsWith('svc.') && name !== 'svc.usage.get')
        .map((name) => name.replaceAll('.', '_')),
    );
    for (const tool of tools) {
      assert.ok((tool.description ?? '').length > 10, tool.name);
      hold(tool.inputSchema, tool.name);
    }
    assert.equal(tools.find((tool) => tool.name === 'svc_sessions_list')?.annotations?.readOnlyHint, true);
    assert.equal(tools.find((tool) => tool.name === 'svc_sessions_stop')?.annotations?.destructiveHint, true);
  });

  function hold(schema: object, where: string): void {
    const { properties = {}, additionalProperties } = schema as {
      properties?: { [name: string]: { type?: string; description?: string; properties?: object } };
      additionalProperties?: unknown;
    };
    assert.equal(additionalProperties, false, where);
    for (const [name, property] of Object.entries(properties)) {
      assert.ok((property.description ?? '').length > 5, `${where}.${name} has a description`);
      assert.ok(property.type !== undefined, `${where}.${name} has a type`);
      if (property.properties !== undefined) hold(property, `${where}.${name}`);
    }
  }

  it('show schemas that a validator takes, and refuse what they refuse', async () => {
    const ajv = new Ajv({ strict: false, validateFormats: false });
    for (const name of Object.keys(toolInputs) as ToolName[]) {
      const validate = ajv.compile(toolInputSchema(name));
      assert.equal(validate({ unheard: 1 }), false, name);
      assert.equal((await boss.call(name.replaceAll('.', '_'), { unheard: 1 })).isError, true, name);
    }
  });

  it('never repeat what they refuse', async () => {
    const told = await Promise.all([
      boss.call('svc_secrets_create', { name: 'hunter2 hunter2', value: 'hunter2' }),
      boss.call('svc_secrets_create', { name: 'x', value: ['hunter2'] }),
      boss.call('svc_secrets_create', { name: 'x', value: 'hunter2', generate: '[a-z]{9}' }),
      boss.call('svc_secrets_create', { name: 'x', value: 'hunter2\0' }),
      boss.call('svc_secrets_create', { name: 'x', hunter2: 'hunter2', overwrite: 'hunter2', scope: 'hunter2' }),
      boss.call('svc_bind', { target: { type: 'hunter2', key: 'k' } }),
    ]);
    for (const { isError, text } of told) {
      assert.equal(isError, true);
      assert.ok(!text.includes('hunter2'), text);
      assert.match(text, /^invalid-input: /);
    }
    assert.match(told[2]?.text ?? '', /exactly one of value and generate/);
    assert.match(told[4]?.text ?? '', /own project only/);
  });

  it('who am I, which agents, which sessions', async () => {
    const me = (await boss.call('svc_session_get')).value;
    assert.equal(me['sessionId'], boss.session);
    assert.deepEqual(
      [me['agent'], me['project'], me['organization'], me['manages']],
      ['boss', 'default', 'default', ['worker']],
    );
    const { agents } = (await boss.call('svc_agents_list')).value as unknown as { agents: { name: string }[] };
    assert.deepEqual(
      agents.map((one) => one.name),
      ['boss', 'mounted', 'single', 'worker'],
    );
    const spawned = String(
      (await boss.call('svc_sessions_spawn', { agent: 'worker', message: 'go' })).value['sessionId'],
    );
    const page = (await boss.call('svc_sessions_list', { limit: 1 })).value;
    assert.deepEqual([page['sessions']?.[0]?.['id'], page['more']], [spawned, true]);
    const next = (await boss.call('svc_sessions_list', { limit: 1, before: spawned })).value;
    assert.equal(next['sessions']?.[0]?.['id'], boss.session);
    const got = (await boss.call('svc_sessions_get', { sessionId: spawned.toUpperCase() })).value;
    assert.deepEqual([got['agent'], got['origin'], got['parentId']], ['worker', 'session', boss.session]);
    assert.deepEqual(await audited('session.spawned'), [`session ${boss.session}`]);
  });

  it('a spawn happens once per key, also when it is asked for at the same time', async () => {
    const input = { agent: 'worker', message: 'once', idempotencyKey: 'one' };
    const clients = await Promise.all(Array.from({ length: 6 }, () => boss.client()));
    const answers = await Promise.all(
      clients.map(async (client) => {
        for (;;) {
          const { content } = await client.callTool({ name: 'svc_sessions_spawn', arguments: input });
          const [part] = content as [{ text: string }];
          // On a slow machine the others may have the project for longer than one of them waits.
          if (!part.text.startsWith('busy: ')) return JSON.parse(part.text) as { sessionId: string; created: boolean };
        }
      }),
    );
    assert.equal(new Set(answers.map((one) => one.sessionId)).size, 1);
    assert.equal(answers.filter((one) => one.created).length, 1);
  });

  it('a spawn of a capped agent becomes a message to its live session, once per key, and is audited as one', async () => {
    const first = (await boss.call('svc_sessions_spawn', { agent: 'single', message: 'first' })).value;
    assert.equal(first['created'], true);
    const session = String(first['sessionId']);
    const again = { agent: 'single', message: 'second', idempotencyKey: 'two' };
    for (const _ of [1, 2]) {
      assert.deepEqual((await boss.call('svc_sessions_spawn', again)).value, { sessionId: session, created: false });
    }
    const { messages } = (await boss.call('svc_sessions_conversation', { sessionId: session })).value;
    assert.deepEqual(
      (messages as unknown as { text: string }[]).map((one) => one.text),
      ['first', 'second'],
    );
    const { body } = await bench.daemon.api('GET', `P/audit?subject=${session}`);
    const items = body['items'] as unknown as { action: string; principal: { id: string }; detail: object }[];
    assert.deepEqual(
      items.map(({ action, principal, detail }) => [action, principal.id, detail]),
      [
        [
          'session.messaged',
          boss.session,
          { agent: 'single', by: boss.session, decision: 'converted', because: 'slot' },
        ],
        ['session.spawned', boss.session, { agent: 'single', revision: 1, by: boss.session }],
      ],
    );
    const single = await bench.sit(session);
    const self = await single.call('svc_sessions_spawn', { agent: 'single', message: 'me' });
    assert.match(self.text, /^own-session: /);
  });

  it('a spawn whose mount cannot find its ref is refused, and nothing is made', async () => {
    const refused = await boss.call('svc_sessions_spawn', { agent: 'mounted', message: 'go' });
    assert.match(refused.text, /^unresolved-ref: The mount \/r of agent mounted needs payload\.branch/);
    const made = await boss.call('svc_sessions_spawn', { agent: 'mounted', message: 'go', input: { branch: 'main' } });
    assert.equal(made.value['created'], true, made.text);
    assert.match((await boss.call('svc_sessions_spawn', { agent: 'nobody', message: 'x' })).text, /^agent-not-found: /);
  });

  it('a message reaches any live session of the project but one’s own', async () => {
    const worker = await bench.start('worker');
    assert.equal(
      (await worker.call('svc_sessions_message', { sessionId: boss.session, text: 'done' })).text,
      '{"delivered":true}',
    );
    const { messages } = (await worker.call('svc_sessions_conversation', { sessionId: boss.session })).value;
    assert.equal((messages as unknown as { text: string }[]).at(-1)?.text, 'done');
    const own = await worker.call('svc_sessions_message', { sessionId: worker.session.toUpperCase(), text: 'x' });
    assert.match(own.text, /^own-session: /);
    assert.ok((await audited('session.messaged')).includes(`session ${worker.session}`));
  });

  it('a conversation is cut to what a model can read, and goes on behind its last message', async () => {
    const worker = await bench.start('worker');
    for (const letter of 'abcdefghij') {
      await boss.call('svc_sessions_message', { sessionId: worker.session, text: letter.repeat(9_000) });
    }
    const page = (await boss.call('svc_sessions_conversation', { sessionId: worker.session })).value;
    const messages = page['messages'] as unknown as { seq: number; text: string; omittedChars?: number }[];
    assert.equal(page['more'], true);
    assert.deepEqual([messages[1]?.text.length, messages[1]?.omittedChars], [8_000, 1_000]);
    assert.ok(JSON.stringify(page).length < 80_000);
    const rest = await boss.call('svc_sessions_conversation', {
      sessionId: worker.session,
      after: messages.at(-1)?.seq,
    });
    const more = rest.value['messages'] as unknown as { text: string }[];
    assert.equal(messages.length + more.length, 11);
    assert.equal(more.at(-1)?.text[0], 'j');
  });

  it('a session stops itself and what its agent manages, nobody else; its answer is heard and its token is gone', async () => {
    const worker = await bench.start('worker');
    const colleague = await bench.start('worker');
    const refused = await worker.call('svc_sessions_stop', { sessionId: colleague.session });
    assert.match(refused.text, /^not-managed: Agent worker does not manage worker/);
    assert.match((await worker.call('svc_sessions_stop', { sessionId: boss.session })).text, /^not-managed: /);
    const stopped = await boss.call('svc_sessions_stop', { sessionId: colleague.session, reason: 'enough' });
    assert.deepEqual(stopped.value, { stopped: colleague.session });
    const { state, reason } = (await boss.call('svc_sessions_get', { sessionId: colleague.session })).value;
    assert.deepEqual([state, reason], ['archived', 'enough']);
    assert.deepEqual((await worker.call('svc_sessions_stop', { sessionId: worker.session })).value, {
      stopped: worker.session,
    });
    assert.equal((await worker.post('svc', { jsonrpc: '2.0', id: 1, method: 'ping' })).status, 401);
    const twice = await boss.call('svc_sessions_stop', { sessionId: worker.session });
    assert.match(twice.text, /^session-ended: /);
  });

  it('ping answers', async () => {
    assert.equal((await boss.call('ping', {}, 'knock')).value['sessionId'], boss.session);
  });

  it('the stored spec of a resource', async () => {
    const { spec, revision } = (await boss.call('svc_resources_get', { kind: 'Agent', name: 'single' })).value;
    assert.deepEqual([spec?.['concurrency'], revision], [1, 1]);
    assert.equal((await boss.call('svc_resources_get', { kind: 'Environment', name: 'base' })).isError, false);
    assert.match((await boss.call('svc_resources_get', { kind: 'Identity', name: 'x' })).text, /^not-found: /);
  });

  it('a dry run tells what would change and every mistake with its place, and changes nothing', async () => {
    const document = (name: string, more = ''): object => ({
      path: `.svc/agents/${name}.yaml`,
      content: `name: ${name}\nharness: harness-a\nenvironment: { name: base, image: { kind: preset, name: base } }\n${more}`,
    });
    const stored = async (): Promise<unknown[]> =>
      Promise.all(
        ['P/agents', 'P/reconciles', 'P/audit'].map(async (path) => (await bench.daemon.api('GET', path)).body),
      );
    const before = await stored();
    const planned = (await boss.call('svc_resources_dry_run', { files: [document('fresh')] })).value;
    assert.equal(planned['status'], 'planned');
    const actions = planned['actions'] as unknown as { op: string; name: string }[];
    assert.ok(actions.some((one) => one.op === 'create' && one.name === 'fresh'));
    assert.ok(!actions.some((one) => one.op === 'delete'));
    const wrong = await boss.call('svc_resources_dry_run', { files: [document('fresh', 'concurrency: 7\n')] });
    assert.equal(wrong.isError, true);
    assert.match(wrong.text, /\.svc\/agents\/fresh\.yaml:4: /);
    assert.deepEqual(await stored(), before);
    const long = { ...document('fresh', `systemPrompt: ${'x'.repeat(50_000)}\n`) };
    const cut = await boss.call('svc_resources_dry_run', { files: [long] });
    assert.ok(cut.text.length < 5_000, `${cut.text.length} characters`);
  });

  it('webhook endpoints: listed, shown, reserved', async () => {
    const { webhooks } = (await boss.call('svc_webhooks_list')).value;
    assert.deepEqual(
      [webhooks?.[0]?.['name'], webhooks?.[0]?.['status'], webhooks?.[0]?.['secretPresent']],
      ['inbox', 'ready', true],
    );
    const shown = (await boss.call('svc_webhooks_get', { name: 'inbox' })).value;
    assert.match(String(shown['ingestUrl']), /\/api\/v1\/webhook-endpoints\/inbox-[a-z0-9]{10}\/events$/);
    assert.deepEqual(shown['auth'], { kind: 'hmac_sha256', secretRef: 'hook-key' });
    await bench.daemon.api('DELETE', 'P/secrets/hook-key');
    const broken = (await boss.call('svc_webhooks_get', { name: 'inbox' })).value;
    assert.equal(broken['secretPresent'], false);
    assert.match(JSON.stringify(broken['problems']), /Secret not found: hook-key/);
    const reserved = (await boss.call('svc_webhooks_reserve', { name: 'later' })).value;
    assert.deepEqual([reserved['status'], reserved['secretPresent'], reserved['auth']], ['reserved', null, null]);
    assert.match((await boss.call('svc_webhooks_get', { name: 'nothing' })).text, /^endpoint-not-found: /);
    assert.deepEqual(await audited('endpoint.reserved'), [`session ${boss.session}`]);
    assert.equal((await boss.call('svc_webhooks_list')).value['more'], false);
    const hooks = Array.from({ length: 200 }, (_, at) => ({
      ...{ event: 'webhook.received', endpoint: `many-${at}`, auth: { kind: 'none' } },
      routing: { kind: 'spawn' },
    }));
    await bench.apply({ crowd: { triggers: hooks } });
    const { value } = await boss.call('svc_webhooks_list');
    assert.deepEqual([(value['webhooks'] as unknown as unknown[]).length, value['more']], [200, true]);
  });

  it('secrets: given or drawn, never answered, refused where they stand, audited under the session', async () => {
    const drawn = await boss.call('svc_secrets_create', { name: 'drawn', generate: 'sk-[a-f0-9]{32}' });
    assert.deepEqual(drawn.value, { name: 'drawn', scope: 'project', protected: true });
    const given = await boss.call('svc_secrets_create', { name: 'given', value: 'hunter2-hunter2' });
    assert.ok(!given.isError && !given.text.includes('hunter2'));
    assert.match((await boss.call('svc_secrets_create', { name: 'given', value: 'other' })).text, /^secret-exists: /);
    assert.equal(
      (await boss.call('svc_secrets_create', { name: 'given', value: 'other', overwrite: true })).isError,
      false,
    );
    await bench.daemon.api('PUT', '/api/v1/orgs/default/secrets/shared', { value: 'ours' });
    const shadow = { name: 'shared', value: 'mine' };
    assert.match((await boss.call('svc_secrets_create', shadow)).text, /^secret-shadows: /);
    assert.equal((await boss.call('svc_secrets_create', { ...shadow, overwrite: true })).isError, false);
    const both = (await boss.call('svc_secrets_create', shadow)).text;
    assert.match(
      both,
      /^secret-exists: Secret shared exists in the project;/,
      'what the name means here is told first',
    );
    const organization = await boss.call('svc_secrets_create', { name: 'high', value: 'x', scope: 'organization' });
    assert.match(organization.text, /^invalid-input: scope: A session creates secrets of its own project only/);
    for (const generate of ['a*', 'a+', '[a-z]{3,}', '.{3}']) {
      assert.match(
        (await boss.call('svc_secrets_create', { name: 'bad', generate })).text,
        /^invalid-pattern: /,
        generate,
      );
    }
    assert.equal((await bench.daemon.api('POST', 'P/secrets/drawn/reveal')).status, 403);
    const created = (await audited('secret.created')).filter((one) => one === `session ${boss.session}`);
    assert.equal(created.length, 3);
  });

  it('connections without credentials, and usage only with billing', async () => {
    const added = await bench.daemon.api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'code',
      credentials: { webhookSecret: 'hunter2-of-the-hook' },
    });
    assert.equal(added.status, 201, JSON.stringify(added.body));
    assert.equal(
      (await boss.call('svc_connections_list')).text,
      '{"connections":[{"name":"code","provider":"codehost","status":"active"}]}',
    );
    assert.match((await boss.call('svc_usage_get')).text, /^no-such-tool: /);
    await bench.apply({ payer: { tools: { svc: { ...svc, capabilities: { billing: 'read' } } } } });
    const payer = await bench.start('payer');
    for (const whose of ['session', 'agent', 'project']) {
      const { value } = await payer.call('svc_usage_get', { of: whose });
      assert.deepEqual([value['of'], value['usage']?.['calls']], [whose, 0]);
    }
  });

  it('a project of the same organization is another world', async () => {
    const made = await bench.daemon.api('POST', '/api/v1/orgs/default/projects', {
      slug: 'elsewhere',
      name: 'Elsewhere',
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const files = [
      {
        path: '.svc/agents/stranger.yaml',
        content: JSON.stringify({
          name: 'stranger',
          harness: 'harness-a',
          environment: { name: 'base', image: { kind: 'preset', name: 'base' } },
          tools: { svc },
          manages: ['worker', 'boss'],
        }),
      },
    ];
    const at = '/api/v1/orgs/default/projects/elsewhere';
    assert.equal((await bench.daemon.api('POST', `${at}/apply`, { files })).status, 200);
    const { body } = await bench.daemon.api('POST', `${at}/agents/stranger/sessions`, { message: 'hi' });
    const stranger = await bench.sit(String(body['id']));
    const sessionId = boss.session;
    for (const [tool, input] of [
      ['svc_sessions_get', { sessionId }],
      ['svc_sessions_conversation', { sessionId }],
      ['svc_sessions_message', { sessionId, text: 'hi' }],
      ['svc_sessions_stop', { sessionId }],
      ['svc_sessions_spawn', { agent: 'worker', message: 'hi' }],
      ['svc_resources_get', { kind: 'Agent', name: 'worker' }],
      ['svc_webhooks_get', { name: 'inbox' }],
    ] as const) {
      assert.match((await stranger.call(tool, input)).text, /^(not-found|agent-not-found|endpoint-not-found): /, tool);
    }
    assert.deepEqual((await stranger.call('svc_bindings_list', { sessionId })).value['bindings'], []);
    assert.deepEqual((await stranger.call('svc_webhooks_list')).value['webhooks'], []);
    assert.deepEqual((await stranger.call('svc_connections_list')).value['connections'], []);
    assert.equal(((await stranger.call('svc_sessions_list')).value['sessions'] as unknown as unknown[]).length, 1);
  });
});

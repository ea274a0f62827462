// What commands show of a thing beside its settings: who an agent is to people.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { callSvc, emptyHome } from './testkit.ts';

let home: Awaited<ReturnType<typeof emptyHome>>;
let daemon: TestDaemon;
before(async () => {
  home = await emptyHome();
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
});
after(async () => {
  await daemon?.stop();
  await home?.remove();
});

async function told(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await callSvc(home.path, args, { env: { SVC_DATA_DIR: daemon.dataDir } });
  assert.equal(code, 0, stderr);
  return stdout;
}

const apply = async (name: string, more: string): Promise<void> => {
  const content = `name: ${name}\nharness: harness-a\nenvironment: { name: e, image: { kind: preset, name: base } }\n${more}`;
  const files = [{ path: `.svc/agents/${name}.yaml`, content }];
  assert.equal((await daemon.api('POST', 'P/apply', { files, prune: false })).status, 200);
};

test('an agent is shown as people see it, and one without an identity by its name alone', async () => {
  await apply('reader', 'identity: { displayName: "Ann\\e[31m", username: ann, description: Reads what is new }\n');
  await apply('plain', '');
  const shown = await told('agent', 'show', 'reader');
  assert.match(shown, /^display name: +Ann\S*\nusername: +ann\ndescription: +Reads what is new\nid:/m);
  assert.doesNotMatch(shown, /\u001b/);
  assert.equal(JSON.parse(await told('agent', 'show', 'reader', '--json')).identity.username, 'ann');
  assert.doesNotMatch(await told('agent', 'show', 'plain'), /display name|username/);
});

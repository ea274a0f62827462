// A session in the root file system of its preset (docs/reference/sessions.md#presets): a machine of its own programs, the
// service's channels, and the session's files. Precondition: namespaces can be made here.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { PresetStore } from '../../adapters/presets/presets.ts';
import { findProgram } from '../../adapters/sandbox/sandbox.ts';
import { makeRootfs } from '../../base/testkit/rootfs.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

const here = await findProgram('bwrap', process.env['PATH'] ?? '');

describe('a preset with a root file system', { skip: here === null && 'no bubblewrap on this machine' }, () => {
  let bench: HostBench;
  let dir: string;
  let digest: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'svc-preset-'));
    const root = join(dir, 'root');
    await makeRootfs(root, 'NAME="Image of a test"\n');
    const config = {
      sandbox: 'bubblewrap',
      file: {
        sessions: { fenced: true },
        sandboxes: { presets: { own: { rootfs: root }, bare: { provider: 'process' } } },
      },
    } as const;
    bench = await createHostBench({ config });
    const built = await new PresetStore(bench.daemon.dataDir).build('node24', root, { now: new Date() });
    digest = built.digest;
    const environment = (name: string, more: object = {}) => ({
      environment: { name, image: { kind: 'preset', name }, ...more },
    });
    await bench.apply({
      inside: environment('node24', { steps: ['echo built > $HOME/step'] }),
      own: environment('own'),
      bare: environment('bare'),
    });
  });
  after(async () => {
    await bench?.stop();
    await rm(dir, { recursive: true, force: true });
  });
  const run = async (agent: string, script: string) => {
    const session = await bench.start(agent, `!exec ${script}\n!say .the-end.`);
    return bench.until(session, ({ state, said }) => state === 'idle' && said.endsWith('.the-end.'));
  };

  it('is what its sessions see, read-only, with home and work their own', async () => {
    const script = [
      'cat /etc/os-release /opt/word; node --version; cat $HOME/step; ls /; id -u;',
      'for path in /etc/x /usr/x /opt/x /x /run/x /dev/x /dev/shm/y $HOME/x /workspace/x /tmp/x; do',
      '(: > $path) 2>/dev/null && echo wrote $path; done; ls -d /etc/passwd- /root 2>&1 | head -1',
    ].join(' ');
    const view = await run('inside', script);
    assert.match(view.said, /^NAME="Image of a test"\nof the image\nv24\.\d+\.\d+\nbuilt\n/);
    assert.match(
      view.said,
      /\n1000\nwrote \/dev\/shm\/y\nwrote \/home\/user\/x\nwrote \/workspace\/x\nwrote \/tmp\/x\n/,
    );
    const sandbox = view.body['sandbox'] as unknown as { [key: string]: unknown };
    assert.equal(sandbox['digest'], digest);
    assert.equal(sandbox['image'], 'node24');
    assert.match(String(sandbox['runtime']), /^bubblewrap \d/);
    assert.deepEqual(sandbox['notEnforced'], []);
  });

  it('is a directory of the operator as well, with the same digest; steps of one project run once', async () => {
    const view = await run('own', 'cat /etc/os-release');
    assert.match(view.said, /Image of a test/);
    const sandbox = view.body['sandbox'] as unknown as { [key: string]: unknown };
    assert.equal(sandbox['digest'], digest);
    const again = await run('inside', 'cat $HOME/step');
    assert.match(again.said, /^built/);
    const stages = again.body['provisioning'] as unknown as { stage: string; cache?: string }[];
    assert.deepEqual(
      stages.filter(({ stage }) => stage === 'setup').map(({ cache }) => cache),
      ['hit'],
    );
  });

  it('says so where its provider has none', async () => {
    const view = await run('bare', 'true');
    const sandbox = view.body['sandbox'] as unknown as { [key: string]: unknown };
    assert.equal(sandbox['provider'], 'process');
    assert.ok((sandbox['notEnforced'] as string[]).includes('image'));
  });
});

// `make test-kubernetes`: what it asks for, and that its recipe holds a cluster against the suite. The cluster is the fake one,
// which the recipe knows by a kubeconfig alone.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { it } from 'node:test';
import { imageTable, Scene, whyNoPods } from '../engine/kubernetes-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';

const root = join(import.meta.dirname, '../../..');

async function make(...given: readonly string[]): Promise<{ code: number | null; said: string }> {
  // A run of tests inside another one would tell its parent and not us.
  const { NODE_TEST_CONTEXT: _context, KUBECONFIG: _config, MAKEFLAGS: _flags, ...env } = process.env;
  const child = spawn('make', ['-s', 'test-kubernetes', ...given], { cwd: root, env });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await ended, said: out + err };
}

it('make test-kubernetes says what it takes, and of a kubeconfig that it cannot be read', async () => {
  for (const given of [[], ['KUBECONFIG=/etc/hosts'], ['IMAGE=x']]) {
    const { code, said } = await make(...given);
    assert.equal(code, 2);
    assert.match(said, /^test-kubernetes: it takes KUBECONFIG=path and IMAGE=reference/);
  }
  const { code, said } = await make('KUBECONFIG=/nowhere/config', 'IMAGE=x');
  assert.equal(code, 2);
  assert.match(said, /^test-kubernetes: KUBECONFIG=\/nowhere\/config cannot be read/);
});

const why = (await whyNoPods()) || (isLong ? false : 'in the long form');
it('make test-kubernetes holds a cluster against the suite, by exec and with pods that dial', {
  skip: why,
}, async (t) => {
  const scene = await Scene.start();
  t.after(() => scene.stop());
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  scene.ways.all.push({ port, to: port });
  const given = [`KUBECONFIG=${await scene.kubeconfig()}`, 'NAMESPACE=svc', `IMAGE=${imageTable.reference}`];
  const { code, said } = await make(...given, `DIAL=127.0.0.1:${port}`);
  assert.equal(code, 0, said.slice(-4_000));
  assert.match(said, /pass 10\n/);
  assert.match(said, /fail 0\n/);
  assert.match(said, /skipped 0\n/);
  const without = await make(`KUBECONFIG=${await scene.kubeconfig()}`, 'NAMESPACE=none', given[2] ?? '');
  assert.notEqual(without.code, 0);
  assert.match(without.said, /namespaces "none" not found/);
});

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';

const suite = createRequire(import.meta.url)
  .resolve('@modelcontextprotocol/conformance/package.json')
  .replace(/package\.json$/, 'dist/index.js');
const run = promisify(execFile);

describe('the conformance suite of the protocol, against a running daemon', () => {
  let bench: ToolBench;
  let seat: Seat;
  let url: string;
  // The suite sends no token: this puts the session's on, and hands everything else on as it is, the Host as well.
  const opener = createServer((near, answer) => {
    const { hostname, port, pathname } = new URL(seat.urlOf('svc'));
    const headers = { ...near.headers, authorization: `Bearer ${seat.token}` };
    const far = request({ hostname, port, path: pathname, method: near.method, headers, setHost: false }, (got) => {
      answer.writeHead(got.statusCode ?? 502, got.headers);
      got.pipe(answer);
    });
    near.pipe(far);
  });
  before(async () => {
    bench = await createToolBench();
    await bench.apply({ worker: {} });
    seat = await bench.start('worker');
    await new Promise<void>((resolve) => opener.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(opener.address() as AddressInfo).port}/`;
  });
  after(async () => {
    opener.closeAllConnections();
    await new Promise((resolve) => opener.close(resolve));
    await bench.stop();
  });

  for (const scenario of ['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection']) {
    it(`passes ${scenario}`, async () => {
      const { stdout } = await run(process.execPath, [suite, 'server', '--url', url, '--scenario', scenario]);
      const [, passed, failed] = /Passed: (\d+)\/\d+, (\d+) failed/.exec(stdout) ?? [];
      assert.ok(Number(passed) > 0 && Number(failed) === 0, stdout);
    });
  }
});

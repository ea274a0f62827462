// A brokered read of the code host: what it costs the daemon beside the provider's own answer, and how many tokens many
// sessions cost that call at once. The provider is simulated in this process; what it and its client take for the same
// request, sent directly, is taken off. Processor time, not time on the wall. A read asks the database who calls, for the
// connection, its limits and its token, and enters the call: five bare statements of the same run are what it is held
// against: three milliseconds are promised where five of them take 0.6, on a core that does nothing else.

import { request } from 'undici';
import { everything, startCodehostBench } from '../edge/mcp/codehost-testkit.ts';
import type { Seat } from '../edge/mcp/mcp-testkit.ts';
import { type Bench, type Bencher, medianMs } from './harness.ts';

const calls = 200;
const rounds = 3;
const warm = 400;
const statements = 5;
const sessions = 50;
const floorsMax = 5;

/** Milliseconds of this process's processor time for one of `count` calls, one after the other. */
async function cpuMs(count: number, work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  for (let n = 0; n < count; n += 1) await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / count;
}

async function run(bench: Bencher): Promise<void> {
  const host = await startCodehostBench({ logLevel: 'info', config: { roles: ['api'] } });
  bench.atEnd(() => host.stopAll());
  const { sim } = host;
  const seat = await host.agent('worker', { 'acme/app': everything });
  const made = await seat.call('issue_write', { method: 'create', owner: 'acme', repo: 'app', title: 'One' }, 'code');
  const number = Number(made.value['number']);
  const call = (tool: string, input: object, alias: string) => async (): Promise<void> => {
    const params = { name: tool, arguments: input };
    // By the lean client: another one's own time is not the daemon's.
    const { statusCode, body } = await request(seat.urlOf(alias), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${seat.token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    });
    const said = await body.text();
    if (statusCode !== 200 || said.includes('"isError":true')) throw new Error(`${tool} is not answered`);
  };
  const read = { method: 'get', owner: 'acme', repo: 'app', issue_number: number };
  const brokered = call('issue_read', read, 'code');
  const authorization = (): string => `Bearer ${[...sim.tokens.keys()].at(-1)}`;
  const direct = async (): Promise<void> => {
    const headers = { accept: 'application/vnd.github+json', authorization: authorization() };
    const { statusCode, body } = await request(`${sim.origin}/repos/acme/app/issues/${number}`, { headers });
    if (statusCode !== 200) throw new Error(`the provider answers ${statusCode}`);
    await body.dump();
  };
  for (const work of [brokered, direct]) await cpuMs(warm, work);
  const costs: number[] = [];
  const floors: number[] = [];
  const bare = async (): Promise<void> => {
    for (let n = 0; n < statements; n += 1) await host.daemon.ctx.db.query('select $1::int as n', [n], 'bench-bare');
  };
  for (let round = 0; round < rounds; round += 1) {
    const through = await cpuMs(calls, brokered);
    costs.push(through - (await cpuMs(calls, direct)));
    floors.push(await cpuMs(calls, bare));
  }
  const what = `processor time of a brokered read without the provider’s / of ${statements} bare statements`;
  bench.ratio(what, medianMs(costs), medianMs(floors), floorsMax);

  const seats: Seat[] = [];
  for (let n = 0; n < sessions; n += 1) seats.push(await host.start('worker'));
  await host.daemon.ctx.db.query('delete from svc.installation_tokens');
  const from = sim.log.length;
  const results = await Promise.all(seats.map((one) => one.call('issue_read', read, 'code')));
  if (results.some((one) => one.isError)) throw new Error('a session got no answer');
  const mints = sim.log.slice(from).filter(({ path }) => path.endsWith('/access_tokens')).length;
  bench.atMost(
    `tokens minted for ${sessions} sessions that call at once, one repository and permission`,
    mints,
    1,
    'tokens',
  );
}

export const bench: Bench = { name: 'broker', title: 'a brokered read of the code host', run };

import assert from 'node:assert/strict';
import type { LookupAddress, lookup } from 'node:dns';
import { test } from 'node:test';
import { bypassesProxy } from './http.ts';
import { guardedLookup, hostFault, isPrivateAddress } from '../../base/net/net.ts';
import { openRepository } from './repo.ts';
import { parseRepoUrl } from './remote.ts';
import { condition, remote, served } from './test-support.ts';

const inside = [
  '127.0.0.1',
  '127.1.2.3',
  '0.0.0.0',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '100.64.0.1',
  '192.0.0.1',
  '198.18.0.1',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '[::1]',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::ffff:a9fe:a9fe',
  '0:0:0:0:0:ffff:0a00:0001',
  '::127.0.0.1',
  '64:ff9b::10.0.0.1',
  '64:ff9b::a00:1',
  '2002:a00:1::',
  '2002:7f00:1::1',
  'fc00::1',
  'fd12:3456::1',
  'fe80::1',
  'fe80::1%eth0',
  'ff02::1',
  '2001:db8::1',
  'not an address',
];
const outside = [
  '8.8.8.8',
  '140.82.121.4',
  '172.32.0.1',
  '100.128.0.1',
  '2606:50c0:8000::153',
  '::ffff:8.8.8.8',
  '64:ff9b::8.8.8.8',
  '2002:808:808::1',
];
for (const address of inside)
  test(`${address} is a private address`, () => assert.equal(isPrivateAddress(address), true));
for (const address of outside)
  test(`${address} is a public address`, () => assert.equal(isPrivateAddress(address), false));

test('numbers that stand for this machine are seen through', () => {
  for (const host of [
    '127.1',
    '0x7f.1',
    '2130706433',
    '017700000001',
    '[::ffff:127.0.0.1]',
    'localhost',
    'a.localhost',
    'localhost.',
  ]) {
    assert.notEqual(hostFault(new URL(`https://${host}/`).hostname), null, host);
  }
  assert.equal(hostFault('codehost.example'), null);
});

const answering = (...addresses: string[]) =>
  ((_name: string, _options: object, callback: (error: null, found: LookupAddress[]) => void) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )) as unknown as typeof lookup;

test('a name with one private address among public ones is refused when it is connected to', async () => {
  const look = (resolve: typeof lookup) =>
    new Promise((done) =>
      guardedLookup(resolve)('host.example', { all: true }, (error, found) =>
        done(error === null ? found : error.message),
      ),
    );
  assert.match(String(await look(answering('8.8.8.8', '10.0.0.7'))), /private address/);
  assert.deepEqual(await look(answering('8.8.8.8')), [{ address: '8.8.8.8', family: 4 }]);
});

test('loopback and names that lead there are refused, and the server sees nothing', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit({ '.svc/agents/a.yaml': 'x' });
  const closed = { network: { allowHttp: true } };
  await assert.rejects(remote(t, url, closed).resolve(), condition('unreachable', /SVC_ALLOW_PRIVATE_NETWORK=true/));
  await assert.rejects(
    remote(t, url, { network: {} }).resolve(),
    condition('unreachable', /this machine|private.*SVC_ALLOW_PRIVATE_NETWORK=true/),
  );
  await assert.rejects(
    remote(t, url.replace('127.0.0.1', 'localhost'), closed).resolve(),
    condition('unreachable', /private/),
  );
  const rebound = { network: { allowHttp: true, lookup: answering('127.0.0.1') } };
  await assert.rejects(
    remote(t, url.replace('127.0.0.1', 'codehost.example'), rebound).resolve(),
    condition('unreachable', /private.*SVC_ALLOW_PRIVATE_NETWORK=true/),
  );
  assert.equal(server.log.length, 0);
});

const rewritten: readonly (readonly [string, string])[] = [
  ['https://codehost.example/o/r.git', 'https://codehost.example/o/r.git'],
  ['https://codehost.example/o/r/', 'https://codehost.example/o/r'],
  ['git@codehost.example:o/r.git', 'https://codehost.example/o/r.git'],
  ['codehost.example:o/r.git', 'https://codehost.example/o/r.git'],
  ['ssh://git@codehost.example/o/r.git', 'https://codehost.example/o/r.git'],
  ['ssh://git@codehost.example:2222/o/r.git', 'https://codehost.example/o/r.git'],
];
for (const [from, to] of rewritten)
  test(`${from} is read at ${to}`, () => assert.equal(parseRepoUrl(from, false).href, to));

const refused: readonly (readonly [string, RegExp])[] = [
  ['https://user:hunter2@codehost.example/o/r', /credentials/],
  ['https://hunter2@codehost.example/o/r', /credentials/],
  ['http://codehost.example/o/r', /use https/],
  ['file:///etc/passwd', /not file:/],
  ['git://codehost.example/o/r', /not git:/],
  ['ext::sh -c id', /not/],
  ['/home/user/repo', /not a URL/],
  ['https://codehost.example/o/r?x=1', /query/],
  ['https://codehost.example/o/r#x', /fragment/],
];
for (const [url, words] of refused) {
  test(`${url} is refused as an address`, async () => {
    assert.throws(() => parseRepoUrl(url, false), condition('not-found', words));
    const source = openRepository({ kind: 'remote', url, root: '' }, { now: () => new Date(0) });
    await assert.rejects(
      source.resolve(),
      (error: Error) => condition('not-found', words)(error) && !error.message.includes('hunter2'),
    );
  });
}

test('a list of hosts without proxy covers names, suffixes, ports and all', () => {
  const by = (list: string, url: string) => bypassesProxy(list, new URL(url));
  assert.equal(by('', 'https://a.example/'), false);
  assert.equal(by('*', 'https://a.example/'), true);
  assert.equal(by('a.example', 'https://a.example/'), true);
  assert.equal(by('.example', 'https://a.example/'), true);
  assert.equal(by('example', 'https://anexample/'), false);
  assert.equal(by('a.example:8443', 'https://a.example/'), false);
  assert.equal(by('x, a.example:443', 'https://a.example/'), true);
});

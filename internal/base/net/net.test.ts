import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { test } from 'node:test';
import { guardedLookup, hostFault, isPrivateAddress, PrivateAddressError } from './net.ts';

const publicList = [
  '8.8.8.8',
  '172.15.0.1',
  '172.32.0.1',
  '192.169.0.1',
  '2606:4700::1111',
  '::ffff:8.8.8.8',
  '2002:808:808::1',
];
const privateList = [
  '127.0.0.1',
  '0.0.0.0',
  '10.1.1.1',
  '100.64.0.1',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '64:ff9b::10.0.0.1',
  '2002:a00:1::1',
  'fe80::1%eth0',
  'fc00::1',
  'fd12::1',
  'ff02::1',
  '2001:db8::1',
  '[::1]',
  'not an address',
  '',
];

test('addresses of the public internet are let through', () => {
  for (const address of publicList) assert.equal(isPrivateAddress(address), false, address);
});

test('private and special addresses are refused in every way of writing them', () => {
  for (const address of privateList) assert.equal(isPrivateAddress(address), true, address);
});

test('hosts that need no lookup are judged from the URL', () => {
  for (const url of [
    'http://localhost',
    'http://a.LOCALHOST.',
    'http://127.1',
    'http://0x7f000001',
    'http://2130706433',
    'http://[::1]',
  ])
    assert.notEqual(hostFault(new URL(url).hostname), null, url);
  for (const url of ['http://example.com', 'http://8.8.8.8', 'http://localhost.example.com'])
    assert.equal(hostFault(new URL(url).hostname), null, url);
});

const answering = (...addresses: string[]) =>
  guardedLookup(((_host: string, _options: object, done: (error: null, found: LookupAddress[]) => void) => {
    done(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  }) as never);

test('a name with one private address among public ones is refused', () => {
  answering('8.8.8.8', '10.0.0.1')('mixed.example.com', {}, (error) => assert.ok(error instanceof PrivateAddressError));
});

test('a public name is answered in the form that was asked for', () => {
  answering('8.8.8.8')('a.example.com', {}, (error, address, family) =>
    assert.deepEqual([error, address, family], [null, '8.8.8.8', 4]),
  );
  answering('8.8.8.8')('a.example.com', { all: true }, (_error, found) =>
    assert.deepEqual(found, [{ address: '8.8.8.8', family: 4 }]),
  );
});

test('a name without addresses is an error', () => {
  answering()('a.example.com', {}, (error) => assert.match(String(error), /no address/));
});

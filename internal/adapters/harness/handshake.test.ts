import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentOf } from './handshake.ts';

const asks = (...capabilities: string[]) => ({
  afterOpen: capabilities.map((capability) => ({ method: 'm', params: {}, capability, required: false })),
});
const answer = (fields: object, sessionCapabilities: unknown = {}) => ({
  protocolVersion: 1,
  agentCapabilities: { mcpCapabilities: { http: true }, sessionCapabilities },
  ...fields,
});

test('of an answer its name, its version and what is asked for are kept, each within bounds', () => {
  const large = 'n'.repeat(5_000_000);
  const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`c${at}`, { of: at }]));
  const said = { ...many, title: { any: large }, resume: {}, none: null, no: false };
  const agent = agentOf(
    answer({ agentInfo: { name: large, version: large } }, said),
    asks('title', 'none', 'no', 'missing'),
  );
  assert.ok(typeof agent !== 'string');
  assert.deepEqual([...agent.capabilities], ['title']);
  assert.deepEqual([agent.info.name.length, agent.info.version.length, agent.info.resume], [1_024, 1_024, 'resume']);
});

const refused = {
  'none of it': [undefined, 'the harness speaks version null of the protocol, not 1'],
  'another version': [answer({ protocolVersion: 7 }), 'the harness speaks version 7 of the protocol, not 1'],
  'a list for a version': [
    answer({ protocolVersion: ['x'.repeat(5_000_000)] }),
    `the harness speaks version ["${'x'.repeat(98)} of the protocol, not 1`,
  ],
  'no tools over HTTP': [
    { protocolVersion: 1, agentCapabilities: { mcpCapabilities: {} } },
    'the harness does not speak to tool servers over HTTP',
  ],
} as const;

for (const [what, [said, why]] of Object.entries(refused))
  test(`who answers with ${what} is not spoken to, and told why in a few words`, () => {
    assert.equal(agentOf(said, asks()), why);
  });

test('who says nothing of itself is unknown, and begins anew', () => {
  const agent = agentOf(answer({}), asks('title'));
  assert.deepEqual(agent, {
    capabilities: new Set(),
    info: { name: 'unknown', version: 'unknown', resume: 'none' },
  });
});

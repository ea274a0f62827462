import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/sdk/types.js';
import { protocolVersions } from './plain.ts';

test('a plain call may be of every version of the protocol that the SDK speaks', () => {
  assert.deepEqual(protocolVersions, SUPPORTED_PROTOCOL_VERSIONS);
});

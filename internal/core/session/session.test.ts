import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deliveryMode, isLive, nextState, sessionSignals, sessionStates, sessionTable } from './session.ts';

/** Every transition there is; what is not here is refused. */
const life = `
queued claim provisioning
provisioning provisioned starting
starting ready idle
idle prompt running
idle unload idle
idle resume provisioning
running turn_ended idle
running permission_asked waiting_permission
running interrupt interrupting
waiting_permission permission_answered running
waiting_permission turn_ended idle
waiting_permission interrupt interrupting
interrupting turn_ended idle
suspended resume provisioning
blocked unblock suspended
`;

describe('states', () => {
  test('every cell of the table is as written here', () => {
    const expected = new Set(life.trim().split('\n'));
    for (const state of sessionStates.filter(isLive)) {
      for (const [signal, end] of [
        ['archive', 'archived'],
        ['replace', 'replaced'],
        ['fail', 'failed'],
      ]) {
        expected.add(`${state} ${signal} ${end}`);
      }
      if (state !== 'blocked') expected.add(`${state} block blocked`);
      if (!['queued', 'suspended', 'blocked'].includes(state)) expected.add(`${state} suspend suspended`);
    }
    for (const state of sessionStates) {
      for (const signal of sessionSignals) {
        const next = nextState(state, signal);
        assert.equal(next !== null, expected.has(`${state} ${signal} ${next}`), `${state} ${signal} ${next}`);
        if (next !== null) expected.delete(`${state} ${signal} ${next}`);
      }
    }
    assert.deepEqual([...expected], []);
  });

  test('an end is an end, and all else is live', () => {
    const ends = sessionStates.filter((state) => !isLive(state));
    assert.deepEqual(ends, ['archived', 'replaced', 'failed']);
    for (const state of ends) assert.deepEqual(sessionTable[state], {});
  });

  test('every state is reached from queued, and every live one can end', () => {
    const seen = new Set(['queued' as (typeof sessionStates)[number]]);
    for (const state of seen) for (const next of Object.values(sessionTable[state])) seen.add(next);
    assert.deepEqual([...seen].sort(), [...sessionStates].sort());
  });
});

test('two kinds of event wait for an idle session, and every other interrupts', () => {
  for (const event of ['codehost.check_run.completed', 'codehost.workflow_run.completed']) {
    assert.equal(deliveryMode(event), 'defer');
  }
  for (const event of [
    'codehost.check_run.requested_action.fix',
    'codehost.check_run.requested_action.completed',
    'chat.message.mentioned',
    'webhook.codehost.check_run.completed',
    'heartbeat.a.0',
  ]) {
    assert.equal(deliveryMode(event), 'interrupt', event);
  }
});

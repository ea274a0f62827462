import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type JsonBody, startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents, codehostDoor } from '../routing/routing-testkit.ts';

const repository = { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } };
const ann = { login: 'ann', id: 1, type: 'User' };

describe('a comment that names an agent by its username', () => {
  let daemon: TestDaemon;
  let arrive: (event: string, body: object) => Promise<string>;
  before(async () => {
    daemon = await startTestDaemon();
    arrive = await codehostDoor(daemon);
    const names = ['Jürgen', 'Code Reviewer', 'レビュア', 'tri.age-', 'plain'];
    await applyAgents(
      daemon.api,
      Object.fromEntries(names.map((username, at) => [`agent-${at}`, { identity: { username } }])),
    );
  });
  after(() => daemon.stop());

  const texts: readonly (readonly [string, boolean])[] = [
    ['@Jürgen, please look', true],
    ['(@JÜRGEN)', true],
    // In two signs, as some keyboards write it.
    ['@Ju\u0308rgen', true],
    ['@Jürgens idea', false],
    ['@Jürgen-Peter', false],
    ['@Jürgen. Thank you', true],
    ['mail a@Jürgen', false],
    ['hello @code reviewer: go', true],
    ['@code reviewers', false],
    ['@code', false],
    ['@レビュアさん、お願いします', true],
    ['@レビュ', false],
    ['@tri.age- go', true],
    ['@tri.age', false],
    ['@plain', true],
    ['@plainly', false],
    ['Jürgen', false],
  ];
  for (const [text, mentioned] of texts) {
    it(`"${text}" ${mentioned ? 'does' : 'does not'}`, async () => {
      const issue = { number: 1, title: 'A change', user: ann };
      const comment = { id: 5, body: text, user: ann };
      const id = await arrive('issue_comment', { action: 'created', repository, sender: ann, issue, comment });
      const { body } = await daemon.api('GET', `P/events/${id}`);
      const said = body['payload']?.['codehost']?.['svc'] as JsonBody;
      assert.equal(said['mentioned'], mentioned);
    });
  }
});

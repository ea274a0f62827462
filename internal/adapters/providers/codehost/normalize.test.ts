import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import examples from '@octokit/webhooks-examples' with { type: 'json' };
import { isKnownEvent } from '../../../domain/events.ts';
import { objectAt } from '../../../domain/fields.ts';
import type { JsonObject } from '../../../domain/json.ts';
import { unlistedPaths } from '../../../domain/payloads-testkit.ts';
import { targetTold } from '../../../domain/payload-target.ts';
import { type CodehostDelivery, normalize } from './codehost.ts';

interface Example extends JsonObject {
  readonly action?: string;
}
const corpus = examples as unknown as {
  readonly name: string;
  readonly examples: readonly Example[];
}[];
const self = { appId: '7', botLogin: 'svc-app[bot]', usernames: ['triage'] };

/** Deliveries of the corpus and the key that each has; what is not listed is ignored. */
const expectedTable: { readonly [event: string]: (action: string, example: Example) => string | undefined } = {
  pull_request: (action) => `codehost.pull_request.${action}`,
  issues: (action) => `codehost.issue.${action}`,
  issue_comment: (action) => (action === 'deleted' ? undefined : `codehost.issue.comment.${action}`),
  pull_request_review: (action) => `codehost.review.${action}`,
  pull_request_review_comment: (action) =>
    action === 'deleted' ? undefined : `codehost.pull_request_review_comment.${action}`,
  check_run: (action) =>
    ({ completed: 'codehost.check_run.completed', requested_action: 'codehost.check_run.requested_action.lgtm|26764' })[
      action
    ],
  workflow_run: (action) => (action === 'completed' ? 'codehost.workflow_run.completed' : undefined),
  commit_comment: () => 'codehost.commit_comment.created',
  push: () => 'codehost.push',
};

const event = (delivery: CodehostDelivery) => {
  assert.equal(delivery.kind, 'event', JSON.stringify(delivery).slice(0, 200));
  if (delivery.kind !== 'event') throw new Error('unreachable');
  return delivery.event;
};
const example = (name: string, action?: string): Example => {
  const found = corpus
    .find((one) => one.name === name)
    ?.examples.find((one) => action === undefined || one.action === action);
  assert.ok(found, `${name} ${action}`);
  return found;
};
const part = (payload: JsonObject, ...path: string[]): unknown =>
  path.reduce<unknown>((value, step) => (value as { [key: string]: unknown } | undefined)?.[step], payload);

describe('the corpus of deliveries', () => {
  for (const { name, examples } of corpus) {
    it(`${name}: each of ${examples.length} has its key`, () => {
      for (const body of examples) {
        const delivery = normalize(name, 'd', body, self);
        const expected = expectedTable[name]?.(body.action ?? '', body);
        if (expected === undefined) {
          assert.equal(delivery.kind, 'ignored');
          continue;
        }
        const { key, payload, target } = event(delivery);
        assert.equal(key, expected);
        assert.ok(isKnownEvent(key));
        assert.equal(part(payload, 'codehost', 'repository', 'fullName'), objectAt(body['repository'])['full_name']);
        assert.equal(part(payload, 'svc', 'authored'), false);
        assert.equal(payload['raw'], body);
        assert.deepEqual(unlistedPaths(key, payload), []);
        assert.deepEqual(targetTold(key, payload), target ?? null);
        assert.ok(!JSON.stringify(payload['codehost']).includes('"undefined"'));
        const hasTarget = !/^codehost\.(push|workflow_run|commit_comment)/.test(key);
        if (name !== 'check_run') assert.equal(target !== undefined, hasTarget, key);
      }
    });
  }
});

describe('derived facts', () => {
  it('a comment on a pull request is told from one on an issue', () => {
    const body = example('issue_comment', 'created');
    const issue = { ...objectAt(body['issue']), pull_request: { url: 'https://example.com' } };
    const { key, target, payload } = event(normalize('issue_comment', 'd', { ...body, issue }, self));
    assert.equal(key, 'codehost.issue_comment.created');
    assert.equal(target?.type, 'codehost.pull_request');
    assert.match(target?.key ?? '', /^Codertocat\/Hello-World#\d+$/);
    assert.equal(part(payload, 'codehost', 'pullRequest', 'number'), issue['number' as never]);
    assert.equal(part(payload, 'codehost', 'issue'), undefined);
    assert.equal(event(normalize('issue_comment', 'd', body, self)).target?.type, 'codehost.issue');
  });

  const by = (sender: object, more: object = {}) =>
    ({ ...example('pull_request', 'opened'), sender, ...more }) as Example;
  const authors: readonly (readonly [string, Example, boolean, boolean])[] = [
    ['a person', by({ login: 'ann', type: 'User' }), false, false],
    ['our bot', by({ login: 'svc-app[bot]', type: 'Bot' }), true, false],
    ['our bot in other letters', by({ login: 'SVC-App[bot]', type: 'Bot' }), true, false],
    ['another bot', by({ login: 'other[bot]', type: 'Bot' }), false, true],
  ];
  for (const [who, body, authored, externalBot] of authors) {
    it(`what ${who} does is ${authored ? '' : 'not '}ours and ${externalBot ? '' : 'not '}another bot's`, () => {
      const { payload } = event(normalize('pull_request', 'd', body, self));
      assert.deepEqual(
        [part(payload, 'svc', 'authored'), part(payload, 'codehost', 'svc', 'authored')],
        [authored, authored],
      );
      assert.equal(part(payload, 'codehost', 'svc', 'externalBot'), externalBot);
    });
  }

  const logins: readonly (readonly [configured: string, login: string, authored: boolean])[] = [
    ['svc-app[bot]', 'svc-app', false],
    ['svc-app[bot]', 'SVC-APP', false],
    ['svc-app', 'svc-app[bot]', true],
    ['svc-app', 'Svc-App', true],
    ['svc-app', 'svc-app2', false],
  ];
  for (const [botLogin, login, authored] of logins) {
    it(`${login} is ${authored ? '' : 'not '}the bot ${botLogin}`, () => {
      const { payload } = event(normalize('pull_request', 'd', by({ login }), { botLogin, usernames: [] }));
      assert.equal(part(payload, 'svc', 'authored'), authored);
    });
  }

  const comments: readonly (readonly [string, string, string | undefined, object, boolean])[] = [
    ['written through our application', 'created', 'svc-app[bot]', { login: 'ann', type: 'User' }, true],
    ['of our application that a person edits', 'edited', 'svc-app[bot]', { login: 'ann', type: 'User' }, false],
    ['of our application that a person edits, without a login', 'edited', undefined, { login: 'ann' }, false],
    ['of our application that it edits', 'edited', 'svc-app[bot]', { login: 'svc-app[bot]', type: 'Bot' }, true],
    ['of our application that another bot edits', 'edited', 'svc-app[bot]', { login: 'x[bot]', type: 'Bot' }, false],
    [
      'of our application that a bot edits, without a login',
      'edited',
      undefined,
      { login: 'x[bot]', type: 'Bot' },
      true,
    ],
  ];
  for (const [what, action, botLogin, sender, authored] of comments) {
    it(`a comment ${what} is ${authored ? '' : 'not '}ours`, () => {
      const body = example('issue_comment', action);
      const comment = { ...objectAt(body['comment']), performed_via_github_app: { id: 7 } };
      const app = { appId: '7', botLogin, usernames: [] };
      const { payload } = event(normalize('issue_comment', 'd', { ...body, sender, comment } as Example, app));
      assert.equal(part(payload, 'svc', 'authored'), authored);
    });
  }

  it('a check that our application completes is ours, a button that a person presses is not', () => {
    const body = example('check_run', 'completed');
    const ours = { ...body, check_run: { ...objectAt(body['check_run']), app: { id: 7 } } };
    assert.equal(part(event(normalize('check_run', 'd', ours, self)).payload, 'svc', 'authored'), true);
    const pressed = example('check_run', 'requested_action');
    const button = { ...pressed, check_run: { ...objectAt(pressed['check_run']), app: { id: 7 } } };
    const { payload, target } = event(normalize('check_run', 'd', button, self));
    assert.equal(part(payload, 'svc', 'authored'), false);
    assert.deepEqual(target, { type: 'codehost.pull_request', key: 'electron/electron#26764' });
    assert.deepEqual(part(payload, 'codehost', 'checkRun', 'requestedAction'), { identifier: 'lgtm|26764' });
  });

  it('a check tells of the pull request that it is on what the host says of it there', () => {
    const body = example('check_run', 'requested_action');
    const pullOf = (run: object): unknown =>
      part(
        event(normalize('check_run', 'd', { ...body, check_run: run as JsonObject }, self)).payload,
        'codehost',
        'pullRequest',
      );
    const run = objectAt(body['check_run']);
    const [pull] = run['pull_requests'] as unknown as [{ head: JsonObject; base: JsonObject }];
    const { head, base } = pull;
    const told = {
      number: 26764,
      head: { ref: head['ref'], sha: head['sha'] },
      base: { ref: base['ref'], sha: base['sha'] },
    };
    assert.deepEqual(pullOf(run), told);
    const elsewhere = { ...pull, number: 1, base: { ...base, repo: { id: 1 } } };
    assert.deepEqual(
      pullOf({ ...run, pull_requests: [elsewhere, pull] }),
      told,
      'one of another repository is not told of',
    );
    assert.deepEqual(pullOf({ ...run, pull_requests: [{ number: 5 }] }), { number: 5 });
    for (const none of [[], [elsewhere], [{}]]) assert.equal(pullOf({ ...run, pull_requests: none }), undefined);
  });

  it('a check says whether it is of the current head', () => {
    const body = example('check_run', 'requested_action');
    const current = event(normalize('check_run', 'd', body, self)).payload;
    assert.equal(part(current, 'codehost', 'checkRun', 'headIsCurrent'), true);
    const old = { ...body, check_run: { ...objectAt(body['check_run']), head_sha: 'f'.repeat(40) } };
    assert.equal(
      part(event(normalize('check_run', 'd', old, self)).payload, 'codehost', 'checkRun', 'headIsCurrent'),
      false,
    );
    const alone = { ...body, check_run: { ...objectAt(body['check_run']), pull_requests: [] } };
    const delivery = event(normalize('check_run', 'd', alone, self));
    assert.equal(part(delivery.payload, 'codehost', 'checkRun', 'headIsCurrent'), undefined);
    assert.equal(delivery.target, undefined);
  });

  const texts: readonly (readonly [string, boolean])[] = [
    ['hello @svc-app please', true],
    ['@Triage: look', true],
    ['ask (@triage)', true],
    ['mail me@triage.test', false],
    ['@triage-team', false],
    ['@triage/x', true],
    ['nobody', false],
  ];
  for (const [text, mentioned] of texts) {
    it(`"${text}" ${mentioned ? 'names' : 'does not name'} one of us`, () => {
      const body = example('issue_comment', 'created');
      const comment = { ...objectAt(body['comment']), body: text };
      const { payload } = event(normalize('issue_comment', 'd', { ...body, comment }, self));
      assert.equal(part(payload, 'codehost', 'svc', 'mentioned'), mentioned);
    });
  }

  const edits: readonly (readonly [string, string, boolean, boolean | undefined])[] = [
    ['now @svc-app', 'nobody', true, false],
    ['nobody', 'once @triage', false, true],
    ['still @triage', '@triage', true, true],
  ];
  for (const [text, from, mentioned, previously] of edits) {
    it(`"${from}" that becomes "${text}" says whether one of us was named before`, () => {
      const body = example('issue_comment', 'edited');
      const comment = { ...objectAt(body['comment']), body: text };
      const edited = { ...body, comment, changes: { body: { from } } };
      const { payload } = event(normalize('issue_comment', 'd', edited, self));
      const svc = objectAt(objectAt(payload['codehost'] as JsonObject)['svc'] as JsonObject);
      assert.deepEqual([svc['mentioned'], part(svc, 'previous', 'mentioned')], [mentioned, previously]);
    });
  }

  it('a title that changes leaves the text as it was, for mentions too', () => {
    const body = example('issues', 'edited');
    const issue = { ...objectAt(body['issue']), title: 'new', body: 'for @triage' };
    const edited = { ...body, issue, changes: { title: { from: 'old' } } };
    const { payload } = event(normalize('issues', 'd', edited, self));
    assert.deepEqual(part(payload, 'codehost', 'svc', 'previous'), { mentioned: true });
    const opened = event(normalize('issues', 'd', example('issues', 'opened'), self)).payload;
    assert.equal(part(opened, 'codehost', 'svc', 'previous'), undefined);
  });

  it('what changed stands under previous, beside what it is now', () => {
    const body = { ...example('pull_request', 'opened'), action: 'edited', changes: { title: { from: 'before' } } };
    const edited = event(normalize('pull_request', 'd', body, self)).payload;
    assert.deepEqual(part(edited, 'codehost', 'pullRequest', 'previous'), { title: 'before' });
    const moved = { ...body, changes: { base: { ref: { from: 'dev' }, sha: { from: 'a' } } } };
    const { payload } = event(normalize('pull_request', 'd', moved, self));
    assert.deepEqual(part(payload, 'codehost', 'pullRequest', 'base', 'previous'), { ref: 'dev', sha: 'a' });
    const closed = event(normalize('pull_request', 'd', example('pull_request', 'closed'), self)).payload;
    assert.equal(part(closed, 'codehost', 'pullRequest', 'previous', 'state'), 'open');
    const comment = event(normalize('issue_comment', 'd', example('issue_comment', 'edited'), self)).payload;
    assert.match(String(part(comment, 'codehost', 'issueComment', 'previous', 'body')), /totally right/);
  });

  it('a check is of the pull requests of its own repository, whatever those of forks have the same commit', () => {
    const body = example('check_run', 'completed');
    const run = objectAt(body['check_run']);
    const [own] = run['pull_requests'] as unknown as JsonObject[];
    const repo = { id: 1, url: 'https://api.github.com/repos/fork/Hello-World', name: 'Hello-World' };
    const forks = { ...own, number: 77, base: { ...objectAt(own?.['base']), repo } };
    const told = (...pulls: unknown[]) =>
      event(normalize('check_run', 'd', { ...body, check_run: { ...run, pull_requests: pulls as never } }, self));
    const both = told(forks, own);
    assert.deepEqual(both.target, { type: 'codehost.pull_request', key: 'Codertocat/Hello-World#2' });
    assert.deepEqual(part(both.payload, 'codehost', 'checkRun', 'pullRequestNumbers'), [2]);
    const none = told(forks);
    assert.equal(none.target, undefined);
    assert.equal(part(none.payload, 'codehost', 'checkRun', 'headIsCurrent'), undefined);
  });

  it('files that were attached to a comment are listed', () => {
    const body = example('issue_comment', 'created');
    const text =
      '![shot](https://github.com/user-attachments/assets/1) [log](https://github.com/a/b/files/12/x.log) [no](https://example.com)\n\n' +
      'https://github.com/user-attachments/assets/2\n<video src="https://github.com/user-attachments/assets/3"></video> https://example.com/4';
    const comment = { ...objectAt(body['comment']), body: text };
    const { payload } = event(normalize('issue_comment', 'd', { ...body, comment }, self));
    assert.deepEqual(part(payload, 'codehost', 'issueComment', 'attachments'), [
      { name: 'shot', url: 'https://github.com/user-attachments/assets/1' },
      { name: 'log', url: 'https://github.com/a/b/files/12/x.log' },
      { name: '2', url: 'https://github.com/user-attachments/assets/2' },
      { name: '3', url: 'https://github.com/user-attachments/assets/3' },
    ]);
  });

  it('an address within a sentence is listed as the host links it: without what follows it', () => {
    const body = example('issue_comment', 'created');
    const at = 'https://github.com/user-attachments/files';
    const text = `see ${at}/1/a.log. And ${at}/2/b.log, (${at}/3/c.log), **${at}/4/d.log**! Was it "${at}/no"? ${at}/5/e.log:`;
    const comment = { ...objectAt(body['comment']), body: text };
    const { payload } = event(normalize('issue_comment', 'd', { ...body, comment }, self));
    const listed = part(payload, 'codehost', 'issueComment', 'attachments') as unknown as { url: string }[];
    assert.deepEqual(
      listed.map(({ url }) => url),
      ['1/a.log', '2/b.log', '3/c.log', '4/d.log', '5/e.log'].map((file) => `${at}/${file}`),
    );
  });

  it('a linked address beyond any that a file has is not looked at to its end', () => {
    const body = example('issue_comment', 'created');
    const listed = (text: string): unknown => {
      const comment = { ...objectAt(body['comment']), body: text };
      const { payload } = event(normalize('issue_comment', 'd', { ...body, comment }, self));
      return part(payload, 'codehost', 'issueComment', 'attachments');
    };
    const address = (length: number): string => 'https://github.com/user-attachments/assets/'.padEnd(length, '1');
    assert.deepEqual(listed(`[a](${address(2_000)})`), [{ name: 'a', url: address(2_000) }]);
    assert.deepEqual(listed(`[a](${address(2_001)}) [b](${address(60)})`), [{ name: 'b', url: address(60) }]);
  });

  it('files that were attached to a review are listed, so that its session is told of them', () => {
    const body = example('pull_request_review', 'submitted');
    const attached = (text: string) => {
      const review = { ...objectAt(body['review']), body: text };
      return part(
        event(normalize('pull_request_review', 'd', { ...body, review }, self)).payload,
        ...['codehost', 'review', 'attachments'],
      );
    };
    const url = 'https://github.com/user-attachments/assets/1';
    assert.deepEqual(attached(`see ![shot](${url})`), [{ name: 'shot', url }]);
    assert.equal(attached('fine'), undefined);
  });

  const conflicts: readonly (readonly [boolean | null, string | undefined, number])[] = [
    [false, 'true', 1],
    [false, undefined, 1],
    [false, 'false', 0],
    [true, 'false', 0],
    [null, 'true', 0],
  ];
  for (const [mergeable, last, derived] of conflicts) {
    it(`mergeable ${mergeable} after ${last} derives ${derived} conflicts`, () => {
      const body = example('pull_request', 'synchronize');
      const pull = { ...objectAt(body['pull_request']), mergeable, state: 'open' };
      const delivery = normalize('pull_request', 'd', { ...body, pull_request: pull }, self);
      assert.equal(delivery.kind, 'event');
      if (delivery.kind !== 'event') return;
      const finished = delivery.finish?.(() => last);
      assert.equal(finished?.derived?.length ?? 0, derived);
      if (derived === 0) return;
      assert.equal(finished?.derived?.[0]?.key, 'codehost.pull_request.merge_conflict');
      assert.equal(finished?.derived?.[0]?.target?.key, delivery.event.target?.key);
    });
  }
});

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import {
  contextLines,
  deliveredMessage,
  displayTitle,
  hiddenContextHeading,
  startMessage,
  withContext,
} from './session.ts';

type Payload = Parameters<typeof contextLines>[1];
/** One key of the root; enough to tell that the payload was the one handed in. */
const render = (template: string, payload: Payload) => ({
  text: template.replace(/\{\{(\w+)\}\}/g, (_, key: string) => String(Object(payload)[key] ?? '')),
  beyond: () => 0,
});
const start = (
  source: Omit<Parameters<typeof startMessage>[0], 'event' | 'payload'> & { event?: string; payload?: Payload },
) => startMessage({ event: 'webhook.x', payload: { n: 1 }, ...source }, render);

const chat = {
  chat: { channelId: 'C1', threadId: '1.5', messageId: '1.7' },
  message: { text: 'hello', author: { userName: 'ann', userId: 'U1' } },
};
const ids = 'Channel: C1\nThread: 1.5\nMessage: 1.7';
const mentioned = 'chat.message.mentioned';

describe('the start message', () => {
  test('1: an attached prompt goes in verbatim, and a message beside it is hidden context', () => {
    assert.deepEqual(start({ attachedUserPrompt: ' Do {{n}}\n', message: 'm {{n}}', initialPrompt: 'i' }), {
      text: ' Do {{n}}\n',
      hiddenContext: 'm 1',
      titleSeed: ' Do {{n}}\n',
    });
    const alone = start({ attachedUserPrompt: 'Do', initialPrompt: 'i', event: mentioned, payload: chat });
    assert.deepEqual(alone, { text: 'Do', hiddenContext: null, titleSeed: 'Do' });
    const both = start({ attachedUserPrompt: 'Do', message: 'm', event: mentioned, payload: chat });
    assert.equal(both.hiddenContext, `m\n\n${ids}`);
    assert.equal(hiddenContextHeading, 'Trigger message context');
  });

  test('2: the rendered message comes before the initial prompt', () => {
    assert.deepEqual(start({ message: 'm {{n}}', initialPrompt: 'i' }), {
      text: 'm 1',
      hiddenContext: null,
      titleSeed: 'm 1',
    });
  });

  test("2: except on a bind route's unmatched spawn, where a defined initial prompt wins", () => {
    assert.equal(start({ message: 'm', initialPrompt: 'i {{n}}', isBindUnmatched: true }).text, 'i 1');
    assert.equal(start({ message: 'm', isBindUnmatched: true }).text, 'm');
  });

  test('3: the initial prompt is rendered against the payload', () => {
    assert.equal(start({ initialPrompt: 'i {{n}}' }).text, 'i 1');
    assert.equal(start({ message: ' {{none}}\n', initialPrompt: 'i' }).text, 'i', 'a message that renders to nothing');
  });

  test('4: the payload speaks: a chat message with its author, or a reaction', () => {
    assert.equal(start({ event: mentioned, payload: chat }).text, `ann: hello\n\n${ids}`);
    assert.equal(start({ event: mentioned, payload: { message: { text: 'hi' } } }).text, 'hi');
    const byId = { message: { text: 'hi', author: { userId: 'U1' } } };
    assert.equal(start({ event: mentioned, payload: byId }).text, 'U1: hi');
    const reaction = { emoji: 'tada', rawEmoji: ':tada:', user: { userName: 'bob' } };
    assert.equal(
      start({ event: 'chat.reaction.added', payload: { reaction, message: { text: 'done' } } }).text,
      'bob added the reaction :tada: on: done',
    );
    const bare = { reaction: { emoji: 'tada', user: { userId: 'U2' } } };
    assert.equal(start({ event: 'chat.reaction.removed', payload: bare }).text, 'U2 removed the reaction tada');
    const nobody = { reaction: { emoji: 'tada' } };
    assert.equal(start({ event: 'chat.reaction.added', payload: nobody }).text, 'Someone added the reaction tada');
  });

  test('5: a generic instruction to review the event and act', () => {
    for (const [event, payload] of [
      ['webhook.x', { message: { text: 'not chat' } }],
      ['chat.reaction.added', {}],
      [mentioned, { message: { text: '  ' } }],
    ] as const) {
      const { text } = start({ event, payload });
      assert.equal(text, `The event ${event} arrived. Review it and act as your instructions say.`);
    }
  });
});

describe('what a live session is told', () => {
  const tell = (source: object, ...isConverted: [boolean?]) =>
    deliveredMessage({ event: mentioned, payload: chat, ...source }, render, ...isConverted);

  test('the rendered message, else what the payload says; never the initial prompt', () => {
    assert.equal(tell({ message: 'm', initialPrompt: 'i' }), `m\n\n${ids}`);
    assert.equal(tell({ initialPrompt: 'i' }), `ann: hello\n\n${ids}`);
    assert.match(tell({ event: 'codehost.push' }), /^The event codehost.push arrived/);
  });

  test('a spawn that became a delivery is told all that it would have started with', () => {
    assert.equal(tell({ initialPrompt: 'i' }, true), `i\n\n${ids}`);
    assert.equal(tell({ attachedUserPrompt: 'Do', message: 'm' }, true), `Do\n\nm\n\n${ids}`);
    assert.equal(tell({ attachedUserPrompt: 'Do' }, true), 'Do');
  });
});

describe('context lines', () => {
  test('only those that the text lacks are appended', () => {
    assert.equal(
      withContext('Channel: C1\n- Thread:  1.5', mentioned, chat),
      'Channel: C1\n- Thread:  1.5\n\nMessage: 1.7',
    );
    assert.equal(withContext(ids, mentioned, chat), ids);
    const inside = 'Answer in Channel:C1 (Thread: 1.5), to Message: 1.7.';
    assert.equal(withContext(inside, mentioned, chat), inside);
    assert.equal(
      withContext('Thread: 1.55, SubChannel: C1, Message: 1.7-x', mentioned, chat),
      `Thread: 1.55, SubChannel: C1, Message: 1.7-x\n\n${ids}`,
    );
    assert.equal(
      withContext('Channel: C11', mentioned, chat),
      `Channel: C11\n\n${ids}`,
      'the beginning of a longer id',
    );
    assert.equal(withContext('x \n', mentioned, chat), `x\n\n${ids}`);
    assert.equal(withContext('x', 'webhook.x', chat), 'x');
    assert.equal(withContext('x', mentioned, {}), 'x');
  });

  test('one line per file of a chat message', () => {
    const files = [{ name: 'a.png', url: 'https://f/a' }, { id: 'F2' }, { name: 'two\n\nlines' }, {}, 'text', null];
    assert.deepEqual(contextLines(mentioned, { message: { attachments: files } }), [
      'Attachment: a.png https://f/a',
      'Attachment: F2',
      'Attachment: two lines',
    ]);
    const said = 'See Attachment:  a.png https://f/a.';
    assert.equal(withContext(said, mentioned, { message: { attachments: files.slice(0, 1) } }), said);
  });

  test('code-host comment and review events name the download tool, and have attachments alone', () => {
    const attachments = [{ name: 'a.png', url: 'https://f/a' }];
    const line = 'Attachment: a.png https://f/a (download it with the tool download_attachment)';
    for (const [event, key] of [
      ['codehost.issue_comment.created', 'issueComment'],
      ['codehost.issue.comment.edited', 'issueComment'],
      ['codehost.review.submitted', 'review'],
      ['codehost.pull_request_review.submitted', 'review'],
      ['codehost.pull_request_review_comment.created', 'reviewComment'],
      ['codehost.commit_comment.created', 'commitComment'],
    ] as const) {
      assert.deepEqual(contextLines(event, { codehost: { [key]: { attachments } } }), [line], event);
      assert.deepEqual(contextLines(event, { codehost: { [key]: {} } }), [], event);
    }
    assert.deepEqual(contextLines('codehost.issue.opened', { codehost: { issueComment: { attachments } } }), []);
    assert.deepEqual(contextLines('codehost.push', { codehost: { commitComment: { attachments } } }), []);
  });

  test('a payload of any shape is read without a prototype', () => {
    for (const payload of [
      null,
      1,
      'x',
      [],
      { chat: [] },
      { chat: { channelId: { a: 1 } } },
      { message: { attachments: {} } },
    ]) {
      assert.deepEqual(contextLines(mentioned, payload), []);
    }
    assert.deepEqual(contextLines(mentioned, { chat: { channelId: 7 } }), ['Channel: 7']);
  });
});

describe('the bound of a message', () => {
  const bytesMax = 300;
  const z = (count: number) => 'z'.repeat(count);
  const size = (text: string) => Buffer.byteLength(text, 'utf8');

  test('one that fits is told whole, one that does not ends with a line that says how much is cut', () => {
    const message = (count: number) => start({ message: '{{n}}', payload: { n: z(count) }, bytesMax }).text;
    assert.equal(message(300), z(300));
    assert.equal(message(301), `${z(279)}\n[cut: 22 more bytes]`);
    assert.equal(size(message(100_000)), 300);
  });

  test('no character is cut in two, and what is not shown is counted in bytes', () => {
    const { text } = start({ message: '{{n}}', payload: { n: '😀'.repeat(100) }, bytesMax });
    const shown = text.slice(0, text.lastIndexOf('\n'));
    assert.equal(shown, '😀'.repeat(69));
    assert.equal(text.slice(shown.length), `\n[cut: ${400 - size(shown)} more bytes]`);
    assert.ok(size(text) <= bytesMax);
  });

  test('what a renderer has not put together counts', () => {
    const far = () => ({ text: z(400), beyond: () => 1_000_000 });
    const { text } = startMessage({ event: 'webhook.x', payload: {}, message: 'm', bytesMax }, far);
    assert.equal(text, `${z(274)}\n[cut: ${400 - 274 + 1_000_000} more bytes]`);
    const blank = () => ({ text: ' '.repeat(400), beyond: () => 1_000_000 });
    const more = startMessage({ event: 'webhook.x', payload: {}, message: 'm', bytesMax }, blank).text;
    assert.match(more, /^ {274}\n\[cut: \d+ more bytes\]$/, 'blank as far as it is put together');
  });

  test('it holds for hidden context, for lines of context, for what a payload says, and for a converted spawn', () => {
    const long = { n: z(400) };
    const attached = { attachedUserPrompt: z(200), message: '{{n}}', bytesMax };
    assert.equal(size(start({ ...attached, payload: long }).hiddenContext ?? ''), bytesMax);
    const converted = deliveredMessage({ event: 'webhook.x', payload: long, ...attached }, render, true);
    assert.equal(size(converted), bytesMax);
    assert.match(converted, /\n\[cut: \d+ more bytes\]$/);
    const said = { ...chat, message: { text: z(280), author: { userName: 'ann' } } };
    assert.equal(size(deliveredMessage({ event: mentioned, payload: said, bytesMax }, render)), bytesMax);
  });

  test('without another one it is a mebibyte', () => {
    const { text } = start({ message: '{{n}}', payload: { n: z(1_048_577) } });
    assert.equal(size(text), 1_048_576);
  });

  test('what a text says already is found out in a bounded time', () => {
    const name = `${'a'.repeat(500)} `;
    const attachments = Array.from({ length: 1_000 }, (_, at) => ({ name, url: `u${at}` }));
    const payload = { ...chat, message: { text: `Attachment: ${name}`.repeat(1_000), attachments } };
    assert.match(withContext(payload.message.text, mentioned, payload), /Attachment: a+ u999$/);
    // Twenty million characters are compared: with the two thousandth place of a line of ten thousand it is over.
    const line = `Attachment: ${'b'.repeat(9_988)}`;
    const said = (places: number): string => `${'Attachment: c\n'.repeat(places)}${line}`;
    const one = { message: { attachments: [{ name: 'b'.repeat(9_988) }] } };
    assert.equal(withContext(said(1_999), mentioned, one), said(1_999));
    assert.equal(withContext(said(2_000), mentioned, one), `${said(2_000)}\n\n${line}`);
  });
});

describe('the display title', () => {
  const title = (template: string | undefined, titleSeed = 'seed', payload: Payload = { n: 1 }) =>
    displayTitle(template, { titleSeed, payload, fallback: 'triage' }, render);

  test('a template is rendered to one line; infer, none and an empty one are made from the start', () => {
    assert.equal(title('PR {{n}}\n now'), 'PR 1 now');
    assert.equal(title(' {{n}} '), '1');
    assert.equal(title('infer', '\nfirst\nsecond'), 'first');
    for (const template of ['infer', undefined, '{{none}}']) assert.equal(title(template), 'seed');
    assert.equal(title(undefined, ' \n --- \n'), 'triage');
  });

  test('an inferred title is the first line with words, cut at a word', () => {
    assert.equal(title('infer', '---\n## Review  the *pull* request\nmore'), 'Review the *pull* request');
    const long = title('infer', 'word '.repeat(40));
    assert.equal(long, `${'word '.repeat(15).trimEnd()}…`);
    assert.equal([...title('infer', '😀a'.repeat(100))].length, 80);
    const half = `${'x'.repeat(40)} ${'y'.repeat(100)}`;
    assert.equal(title('infer', half), `${half.slice(0, 79)}…`, 'a word that ends at the half is too short a title');
    assert.equal(title('infer', `x${half}`), `x${'x'.repeat(40)}…`);
  });

  test('a title is sought in the beginning of a text', () => {
    const signs = '-\n'.repeat(8_000);
    assert.equal(title('infer', `${' \n'.repeat(50_000)}${signs}words`), 'words');
    assert.equal(title('infer', `${signs}${signs}words`), 'triage');
    assert.equal(title('{{n}}', 'seed', { n: `${'\n'.repeat(50_000)}one\ntwo` }), 'one two');
  });

  test('a rendered title has at most 200 characters', () => {
    const long = title('{{n}}', 'seed', { n: 'z'.repeat(5_000) });
    assert.equal(long, `${'z'.repeat(199)}…`);
    assert.equal([...title('{{n}}', 'seed', { n: '😀'.repeat(5_000) })].length, 200);
    assert.equal(title('{{n}}', 'seed', { n: '😀'.repeat(200) }), '😀'.repeat(200));
  });

  test('a first line of many megabytes is looked at no further than a title goes', async () => {
    const script = `import { displayTitle } from '${new URL('start.ts', import.meta.url).href}';
      const start = { titleSeed: 'z'.repeat(64_000_000), payload: {}, fallback: 'triage' };
      console.log(displayTitle('infer', start, (text) => ({ text, beyond: () => 0 })));`;
    // A list of its characters alone would take twice that heap.
    const flags = ['--max-old-space-size=256', '--input-type=module-typescript', '--eval', script];
    const { stdout } = await promisify(execFile)(process.execPath, flags);
    assert.equal(stdout, `${'z'.repeat(79)}…\n`);
  });
});

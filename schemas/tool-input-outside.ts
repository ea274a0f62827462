// Inputs of the tools that speak to people where they are: the chat provider and the tracker.

import * as v from 'valibot';
import { page, said, word } from './tool-input-parts.ts';

const channelId = (what: string) => word(what, 256);
const threadId = (what: string) => v.optional(word(what, 256));
const chatTarget = v.optional(
  v.pipe(
    v.strictObject({
      provider: word('The provider, such as slack.', 64),
      connection: word('Name of the connection.', 128),
    }),
    v.description('The connection that is meant; needed where this alias has several.'),
  ),
);
const idempotencyKey = v.optional(
  word('A repeat of the call with the same key and input gets the first answer, and nothing is sent again.', 128),
);
const trackerIssue = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/, 'Expected the id or identifier of an issue'),
  v.description('Id of the issue, or its identifier such as ABC-123.'),
);
const labelNames = (what: string) =>
  v.pipe(v.array(word('A label.', 200)), v.minLength(1), v.maxLength(50), v.description(what));

export const outsideInputs = {
  'chat.send': v.strictObject({
    target: chatTarget,
    channelId: v.optional(channelId('Channel. Without: the one that started this session.')),
    threadId: threadId('Thread to answer in. Without a channel: the thread that started this session.'),
    text: said('The message.', 1_000_000),
    format: v.optional(
      v.pipe(
        v.picklist(['markdown', 'mrkdwn']),
        v.description(
          'How the text is written: Markdown (12,000 characters at most), or the provider’s mrkdwn (40,000).',
        ),
      ),
      'markdown',
    ),
    idempotencyKey,
  }),
  'chat.history': v.strictObject({
    target: chatTarget,
    channelId: v.optional(channelId('Channel. Without: the one that started this session.')),
    threadId: threadId('Only this thread. Without a channel: the thread that started this session.'),
    limit: page('Messages'),
    before: v.optional(word('next of the answer before, or the id of a message: only what was said earlier.', 1_000)),
  }),
  'chat.search': v.strictObject({
    target: chatTarget,
    query: said('Words to look for.', 1_000),
    limit: page('Messages'),
  }),
  'chat.react': v.strictObject({
    target: chatTarget,
    channelId: v.optional(channelId('Channel of the message. Without: the one that started this session.')),
    messageId: word('The message.', 256),
    emoji: word('Name of the emoji without colons, such as thumbsup.', 128),
    idempotencyKey,
  }),
  issue_get: v.strictObject({ issue: trackerIssue }),
  issue_search: v.strictObject({
    query: said('Words to look for.', 1_000),
    limit: v.optional(
      v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(100), v.description('Issues at most, 1 to 100.')),
      20,
    ),
  }),
  issue_comment: v.strictObject({
    issue: trackerIssue,
    body: said('The comment, in Markdown.', 1_000_000),
    parent: v.optional(word('Id of the comment that is answered.', 100)),
    idempotencyKey,
  }),
  issue_update: v.strictObject({
    issue: trackerIssue,
    state: v.optional(word('Name or id of a state of the issue’s team.', 200)),
    addLabels: v.optional(labelNames('Names or ids of labels to put on.')),
    removeLabels: v.optional(labelNames('Names or ids of labels to take off.')),
    assignee: v.optional(
      v.pipe(
        v.nullable(word('A person.', 320)),
        v.description('Name, e-mail address or id of a member of the team; null: nobody.'),
      ),
    ),
    priority: v.optional(
      v.pipe(
        v.number(),
        v.integer(),
        v.minValue(0),
        v.maxValue(4),
        v.description('0 none, 1 urgent, 2 high, 3 medium, 4 low.'),
      ),
    ),
    idempotencyKey,
  }),
} as const;

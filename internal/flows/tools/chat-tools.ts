// Tools of chat providers. Their remote calls are not part of this version: each says so, and posts nothing.

import { Fault } from '../../domain/fault.ts';
import { tool, type ToolSpec } from './table.ts';

const unavailable = async (): Promise<never> => {
  throw new Fault(
    'unavailable',
    'not-available',
    'This version of svc does not call chat providers yet; nothing was done.',
  );
};

export const chatTools: readonly ToolSpec[] = [
  tool({
    name: 'chat.send',
    description: 'Post a chat message; without channelId, into the thread that started this session.',
    effect: 'adds',
    run: unavailable,
  }),
  tool({
    name: 'chat.history',
    description: 'Read the latest messages of a chat channel or thread.',
    effect: 'none',
    run: unavailable,
  }),
  tool({ name: 'chat.search', description: 'Search chat messages by words.', effect: 'none', run: unavailable }),
  tool({ name: 'chat.react', description: 'React to a chat message with an emoji.', effect: 'adds', run: unavailable }),
];

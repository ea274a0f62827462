// docs/reference/messages.md: every code of a diagnostic, with the words that its message begins with where they are fixed.

import { DIAGNOSTIC_CODES } from '../domain/codes.ts';
import { code, madeFrom, page, table } from './text.ts';

export const messagesPage = (): string =>
  page([
    madeFrom('the table of codes'),
    '# Diagnostics',
    'A diagnostic has a severity, a stable code, a message, and a place: file, line, column and path. Where the second column says something the message begins with it; names may follow.',
    table(
      ['Code', 'The message begins'],
      Object.entries(DIAGNOSTIC_CODES).map(([name, words]) => [code(name), words === null ? '' : String(words)]),
    ),
  ]);

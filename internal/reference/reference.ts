// Pages of docs/reference that tables make: the command line, the HTTP API, the configuration, the keys and payloads of events, the
// fields of agent documents, the codes of diagnostics. Each is text from the table that the program itself runs on, so that a page cannot say anything
// else; `make reference` writes them, and a test says when one is stale. What a table cannot say stands in the pages
// beside them, written by hand.

import { globalOptions } from '../edge/cli/table-global.ts';
import { commands } from '../edge/cli/table.ts';
import { openApi } from '../edge/http/openapi.ts';
import { routes } from '../edge/http/routes.ts';
import { jsonSchema } from '../../schemas/json-schema.ts';
import { agentPage } from './agent-page.ts';
import { cliPage } from './cli-page.ts';
import { configurationPage } from './configuration-page.ts';
import { eventsPage } from './events-page.ts';
import { httpPage, type OpenApiDocument } from './http-page.ts';
import { messagesPage } from './messages-page.ts';

/** Text by file name in docs/reference. */
export function referencePages(): { readonly [file: string]: string } {
  return {
    'agent-document.md': agentPage(),
    'cli.md': cliPage(commands, globalOptions),
    'configuration.md': configurationPage(jsonSchema('config')),
    'events.md': eventsPage(),
    'http-api.md': httpPage(openApi(routes, { version: '', baseUrl: '' }) as unknown as OpenApiDocument),
    'messages.md': messagesPage(),
  };
}

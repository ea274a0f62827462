// What sessions run in, for whoever runs the installation (docs/reference/sessions.md#engines).

import * as api from '../../../../schemas/api/sandbox.ts';
import { forwardedRequest } from '../../../flows/peers.ts';
import { engineView, listSandboxes, reapSandboxes } from '../../../flows/session-host/session-host.ts';
import { ok, type Route, serve } from '../route.ts';

export const sandboxRoutes: readonly Route[] = [
  serve(api.getSandbox, async ({ ctx, headers, signal }) =>
    ok(await engineView(ctx, api.getSandbox.path, forwardedRequest(headers, signal))),
  ),
  serve(api.listSandboxes, async ({ ctx, headers, signal }) =>
    ok(await listSandboxes(ctx, api.listSandboxes.path, forwardedRequest(headers, signal))),
  ),
  serve(api.reapSandboxes, async ({ ctx, headers, signal, actor }) =>
    ok(await reapSandboxes(ctx, api.reapSandboxes.path, forwardedRequest(headers, signal), actor)),
  ),
];

// Whom a project tells of what happens in it (docs/reference/notifications.md), and what it was told.

import * as api from '../../../../schemas/api/receivers.ts';
import { countNotices, countReceivers } from '../../../adapters/store/console/counts.ts';
import { listNotices, type NoticeDeliveries } from '../../../adapters/store/notify/notices.ts';
import { listReceivers, type ReceiverRow } from '../../../adapters/store/notify/receivers.ts';
import { conditionsList } from '../../../domain/notification.ts';
import type { FlowContext } from '../../../flows/context.ts';
import {
  addReceiver,
  changeReceiver,
  readReceiver,
  removeReceiver,
  testReceiver,
} from '../../../flows/notify/notify.ts';
import { pageOf, readTextPage } from '../page.ts';
import { created, noContent, ok, type Route, serve } from '../route.ts';
import { dryRemoveReceiver } from '../../../flows/console/console.ts';
import { counted, readIdPage, withReason } from './shapes.ts';

/** Whoever has the address of a webhook of many products may send to it: who may not change it sees where it leads, no more. */
const addressFor = (url: string, isWhole: boolean): string => (isWhole ? url : `${new URL(url).origin}/…`);

const show = (row: ReceiverRow, isWhole: boolean) => ({
  name: row.name,
  kind: row.kind,
  scope: 'project' as const,
  conditions: [...(row.conditions ?? conditionsList)],
  suspended: row.suspended,
  ...(row.connection !== null && { connection: row.connection }),
  ...(row.channel !== null && { channel: row.channel }),
  ...(row.url !== null && { url: addressFor(row.url, isWhole), signed: row.sealed !== null }),
});

/** Those of the configuration; where they lead is the operator's to know. */
const ofInstallation = (ctx: FlowContext) =>
  (ctx.outbox?.receivers ?? []).map(({ name, kind, conditions }) => ({
    name,
    kind,
    scope: 'installation' as const,
    conditions: conditionsList.filter((one) => conditions?.includes(one) ?? true),
    suspended: false,
  }));

const showNotice = ({ at, tellings, ...row }: NoticeDeliveries) => ({
  ...row,
  at: at.toISOString(),
  tellings: tellings.map(({ code, ...one }) => ({ ...one, ...(code !== null && { code }) })),
});

export const receiverRoutes: readonly Route[] = [
  serve(api.listReceivers, async ({ ctx, project, query, can }) => {
    const page = readTextPage(query);
    const isWhole = can('receivers:write');
    const rows = await listReceivers(ctx.db, project.id, { ...page, limit: page.limit + 1 });
    const shown = (row: ReceiverRow) => show(row, isWhole);
    const own = pageOf(rows, page.limit, (row) => [row.name], shown);
    const others = ofInstallation(ctx);
    const total = query.counts === 'true' ? (await countReceivers(ctx.db, project.id)) + others.length : undefined;
    const items = page.after === undefined ? [...own.items, ...others] : own.items;
    return ok({ ...own, items, ...counted(total) });
  }),
  serve(api.createReceiver, async ({ ctx, project, actor, body }) =>
    created(show(await addReceiver(ctx, project, actor, body), true)),
  ),
  serve(api.getReceiver, async ({ ctx, project, params, can }) =>
    ok(show(await readReceiver(ctx, project, params.name), can('receivers:write'))),
  ),
  serve(api.updateReceiver, async ({ ctx, project, actor, params, body }) =>
    ok(show(await changeReceiver(ctx, project, actor, { ...body, name: params.name }), true)),
  ),
  serve(api.deleteReceiver, async ({ ctx, project, actor, params: { name }, query, body }) => {
    if (query.dryRun === 'true') return ok(await dryRemoveReceiver(ctx, project, name));
    await removeReceiver(ctx, project, withReason(actor, body), name);
    return noContent;
  }),
  serve(api.testReceiver, async ({ ctx, project, actor, params: { name } }) =>
    ok({ name, ...(await testReceiver(ctx, project, actor, name)) }),
  ),
  serve(api.listNotices, async ({ ctx, project, query }) => {
    const { limit, before } = readIdPage(query);
    const rows = await listNotices(ctx.db, project.id, { before, limit: limit + 1 });
    const total = query.counts === 'true' ? await countNotices(ctx.db, project.id) : undefined;
    return ok({ ...pageOf(rows, limit, (row) => [row.id], showNotice), ...counted(total) });
  }),
];

// One webhook endpoint.

export { Detail as Page } from './page-endpoints.ts';

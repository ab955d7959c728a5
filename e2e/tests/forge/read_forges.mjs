// Reads the tests' server with gitbeaker and Octokit, as they would read a real GitLab and a real GitHub.
// node read_forges.mjs NODE_MODULES URL TOKEN

import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [packages, url, token] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(path.join(packages, file)));
const { Gitlab } = await load("@gitbeaker/rest/dist/index.mjs");
const { Octokit } = await load("@octokit/rest/dist-src/index.js");

const gitlab = new Gitlab({ host: url, token });
const project = await gitlab.Projects.show("group/demo");
assert.equal(project.id, 42);
assert.equal(project.default_branch, "main");
const opened = await gitlab.MergeRequests.all({ projectId: "group/demo", state: "opened" });
assert.deepEqual(opened.map((found) => found.iid), [3, 2]);
assert.equal((await gitlab.MergeRequests.show("group/demo", 1)).author.username, "ann");
// Over pages, by the header that leads to the next.
const many = await gitlab.MergeRequests.all({ projectId: "group/many", perPage: 100 });
assert.equal(many.length, 250);
assert.equal((await gitlab.Pipelines.show("group/demo", 501)).status, "failed");
const jobs = await gitlab.Jobs.all("group/demo", { pipelineId: 501 });
assert.deepEqual(jobs.map((job) => job.id), [901, 902]);
assert.match(await gitlab.Jobs.showLog("group/demo", 901), /ERROR: Job failed/);
const issues = await gitlab.Issues.all({ projectId: "group/demo", state: "opened" });
assert.deepEqual(issues.map((issue) => issue.title), ["Login fails"]);
const status = async (call) => {
  try {
    await call;
  } catch (error) {
    return error.status ?? error.cause?.response?.status;
  }
  return "no error";
};
assert.equal(await status(gitlab.Projects.show("group/none")), 404);
assert.equal(await status(new Gitlab({ host: url, token: "wrong" }).Projects.show("group/demo")), 401);

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const octokit = (auth) => new Octokit({ baseUrl: `${url}/api/v3`, auth, log: silent });
const { rest, paginate } = octokit(token);
const demo = { owner: "octo", repo: "demo" };
assert.equal((await rest.repos.get(demo)).data.full_name, "octo/demo");
const pulls = await paginate(rest.pulls.list, { ...demo, state: "all" });
assert.ok(pulls.length > 0 && pulls.every((pull) => pull.number > 0 && pull.head.ref));
assert.equal((await rest.pulls.get({ ...demo, pull_number: pulls[0].number })).data.mergeable, true);
const runs = await paginate(rest.actions.listWorkflowRunsForRepo, demo);
assert.ok(runs.length > 0);
const steps = await paginate(rest.actions.listJobsForWorkflowRun, { ...demo, run_id: runs[0].id });
assert.ok(steps.length > 0);
assert.ok((await paginate(rest.issues.listForRepo, { ...demo, state: "all" })).length > 0);
assert.equal(await status(rest.repos.get({ owner: "octo", repo: "none" })), 404);
assert.equal(await status(octokit("wrong").rest.repos.get(demo)), 401);

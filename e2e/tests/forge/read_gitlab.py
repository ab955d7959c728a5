"""Reads the tests' server with python-gitlab, as it would read a real GitLab."""

import sys

import gitlab

url, token = sys.argv[1:3]
server = gitlab.Gitlab(url, private_token=token)
assert server.version()[0] == "19.5.0", server.version()
project = server.projects.get("group/demo")
assert project.id == 42 and project.default_branch == "main"

opened = project.mergerequests.list(state="opened", get_all=True)
assert [found.iid for found in opened] == [3, 2], opened
assert project.mergerequests.get(1).author["username"] == "ann"

many = server.projects.get("group/many", lazy=True)
rows = many.mergerequests.list(iterator=True, per_page=100)
assert len(list(rows)) == 250

pipeline = project.pipelines.get(501)
assert pipeline.status == "failed"
jobs = pipeline.jobs.list(get_all=True)
assert [job.id for job in jobs] == [901, 902], jobs
assert b"ERROR: Job failed" in project.jobs.get(901).trace()

assert [issue.title for issue in project.issues.list(state="opened", get_all=True)] == ["Login fails"]
try:
    server.projects.get("group/none")
except gitlab.exceptions.GitlabGetError as error:
    assert error.response_code == 404
else:
    raise AssertionError("there is no such project")
try:
    gitlab.Gitlab(url, private_token="wrong").projects.get("group/demo")
except gitlab.exceptions.GitlabAuthenticationError:
    pass
else:
    raise AssertionError("the token is wrong")

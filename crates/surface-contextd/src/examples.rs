//! Examples of every operation. They are part of schema.json, TOOL.md and the OpenAPI document, and a test
//! executes them in this order. Ids stand for those that the same or an earlier example returned; outputs
//! show only the relevant fields.

/// One request and its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Example {
    /// `Service.Method`.
    pub(crate) key: &'static str,
    pub(crate) description: &'static str,
    /// JSON.
    pub(crate) input: &'static str,
    /// JSON; the real response may have more fields.
    pub(crate) output: &'static str,
}

const fn example(
    key: &'static str,
    description: &'static str,
    input: &'static str,
    output: &'static str,
) -> Example {
    Example { key, description, input, output }
}

/// All examples, in an order in which they work.
pub(crate) const EXAMPLES: &[Example] = &[
    example(
        "Session.Start",
        "Begin to work on a project",
        r#"{"project_path": "/path/to/project", "task_description": "Repair the flaky login test"}"#,
        r#"{"session_id": "sess_abc123"}"#,
    ),
    example(
        "SafeExec.Write",
        "New file",
        r#"{"path": "notes/todo.txt", "content": "one\ntwo\nthree\n", "session_id": "sess_abc123"}"#,
        r#"{"summary": "Created: notes/todo.txt (14 bytes)", "bytes_written": 14}"#,
    ),
    example(
        "SafeExec.Write",
        "Add a line",
        r#"{"path": "notes/todo.txt", "content": "four\n", "append": true, "session_id": "sess_abc123"}"#,
        r#"{"summary": "Appended to: notes/todo.txt (5 bytes)", "bytes_written": 5}"#,
    ),
    example(
        "SafeExec.Read",
        "One line of a file",
        r#"{"path": "notes/todo.txt", "offset": 2, "limit": 1, "session_id": "sess_abc123"}"#,
        r#"{"summary": "Read: notes/todo.txt (4 lines, 19 bytes)", "content_preview": "two\n", "content_ref": "ref_qrs345", "total_lines": 4}"#,
    ),
    example(
        "SafeExec.Bash",
        "Simple command",
        r#"{"cmd": "ls notes", "session_id": "sess_abc123"}"#,
        r#"{"summary": "Executed: ls notes (exit 0, 1 line) [sandbox: namespaces]", "stdout_preview": "todo.txt\n", "stdout_ref": "ref_xyz789", "exit_code": 0}"#,
    ),
    example(
        "SafeExec.Bash",
        "Command with extended timeout",
        r#"{"cmd": "find . -name '*.txt' 2>/dev/null", "session_id": "sess_abc123", "timeout": 120}"#,
        r#"{"summary": "Executed: find . -name '*.txt' 2>/dev/null (exit 0, 1 line) [sandbox: namespaces]", "exit_code": 0, "stdout_ref": "ref_def456"}"#,
    ),
    example(
        "SafeExec.Bash",
        "Failed command",
        r#"{"cmd": "cat /nonexistent", "session_id": "sess_abc123"}"#,
        r#"{"summary": "Executed: cat /nonexistent (exit 1) [sandbox: namespaces]", "exit_code": 1, "stderr_preview": "cat: /nonexistent: No such file or directory\n", "stdout_ref": ""}"#,
    ),
    example(
        "SafeExec.Bash",
        "Command that ran out of time",
        r#"{"cmd": "sleep 60", "session_id": "sess_abc123", "timeout": 1}"#,
        r#"{"summary": "Executed: sleep 60 (timed out after 1 s) [sandbox: namespaces]", "exit_code": 124}"#,
    ),
    example(
        "Ref.GetContent",
        "All of an output",
        r#"{"ref_id": "ref_xyz789", "session_id": "sess_abc123"}"#,
        r#"{"content": "todo.txt\n", "content_type": "text"}"#,
    ),
    example(
        "Memory.Store",
        "Keep what was learnt",
        r#"{"title": "The login test waits too short", "description": "It fails on slow machines", "content": "Wait for the element instead of sleeping", "outcome": "success", "tags": ["test", "login"], "session_id": "sess_abc123"}"#,
        r#"{"id": "mem_abc123"}"#,
    ),
    example(
        "Memory.Search",
        "Find it in other words",
        r#"{"query": "flaky authentication tests", "session_id": "sess_abc123"}"#,
        r#"{"memories": [{"id": "mem_abc123", "title": "The login test waits too short", "description_preview": "It fails on slow machines", "confidence": 0.8, "outcome": "success"}], "total_count": 1}"#,
    ),
    example(
        "Memory.Get",
        "Read it in full",
        r#"{"id": "mem_abc123", "session_id": "sess_abc123"}"#,
        r#"{"id": "mem_abc123", "content": "Wait for the element instead of sleeping", "tags": ["test", "login"]}"#,
    ),
    example(
        "Memory.Feedback",
        "It helped",
        r#"{"memory_id": "mem_abc123", "helpful": true, "session_id": "sess_abc123"}"#,
        r#"{"new_confidence": 0.9}"#,
    ),
    example(
        "Checkpoint.Save",
        "Keep where the work stands",
        r#"{"summary": "Test found, cause known; next: wait for the element", "tags": ["login"], "session_id": "sess_abc123"}"#,
        r#"{"checkpoint_id": "ckpt_abc123"}"#,
    ),
    example(
        "Checkpoint.List",
        "What there is to go on from",
        r#"{"limit": 5, "session_id": "sess_abc123"}"#,
        r#"{"checkpoints": [{"id": "ckpt_abc123", "summary": "Test found, cause known; next: wait for the element", "tags": ["login"]}]}"#,
    ),
    example(
        "Checkpoint.Resume",
        "Go on with everything that was recorded",
        r#"{"checkpoint_id": "ckpt_abc123", "level": "full", "session_id": "sess_abc123"}"#,
        r#"{"summary": "Test found, cause known; next: wait for the element", "context_ref": "ref_ghi789"}"#,
    ),
    example(
        "Policy.Check",
        "A command that will be refused",
        r#"{"action": "git push --force origin main", "session_id": "sess_abc123"}"#,
        r#"{"compliant": false, "violations": [{"policy_id": "repo-force-push", "policy_title": "Do not overwrite shared history", "reason": "`git push --force origin main` is such a command", "severity": "critical"}], "suggestions": ["Use `git push --force-with-lease` on a branch of your own, or make a new commit."]}"#,
    ),
    example(
        "Policy.List",
        "Policies about code",
        r#"{"category": "coding", "session_id": "sess_abc123"}"#,
        r#"{"policies": [{"id": "code-conflict-markers", "title": "No conflict markers in files", "category": "coding", "severity": "warning"}, {"id": "code-lock-files", "title": "Lock files are made by their tools", "category": "coding", "severity": "info"}]}"#,
    ),
    example(
        "Policy.Get",
        "One policy",
        r#"{"id": "repo-force-push", "session_id": "sess_abc123"}"#,
        r#"{"id": "repo-force-push", "category": "repo", "severity": "critical"}"#,
    ),
    example(
        "Skill.Create",
        "Write down how something is done",
        r#"{"name": "release", "description": "How this project is released", "trigger": "a release is asked for", "steps": ["Run the tests", "Tag the commit"], "session_id": "sess_abc123"}"#,
        r#"{"id": "skill_abc123"}"#,
    ),
    example(
        "Skill.List",
        "Skills of the project",
        r#"{"scope": "project", "session_id": "sess_abc123"}"#,
        r#"{"skills": [{"id": "skill_abc123", "name": "release", "description_preview": "How this project is released"}]}"#,
    ),
    example(
        "Skill.Update",
        "Change the steps",
        r#"{"id": "skill_abc123", "steps": ["Run the tests", "Tag the commit", "Push the tag"], "session_id": "sess_abc123"}"#,
        r#"{"tokens_used": 6}"#,
    ),
    example(
        "Skill.Get",
        "By name",
        r#"{"id": "release", "session_id": "sess_abc123"}"#,
        r#"{"id": "skill_abc123", "steps": ["Run the tests", "Tag the commit", "Push the tag"]}"#,
    ),
    example(
        "Agent.Create",
        "An agent that reviews",
        r#"{"name": "reviewer", "description": "Reads changes closely", "system_prompt": "You review changes. Look for bugs first.", "skills": ["release"], "temperature": 0.5, "session_id": "sess_abc123"}"#,
        r#"{"id": "agent_abc123"}"#,
    ),
    example(
        "Agent.List",
        "Agents that may be used here",
        r#"{"session_id": "sess_abc123"}"#,
        r#"{"agents": [{"id": "agent_abc123", "name": "reviewer", "description_preview": "Reads changes closely"}]}"#,
    ),
    example(
        "Agent.Update",
        "Prefer a model",
        r#"{"id": "agent_abc123", "model_preference": "opus", "session_id": "sess_abc123"}"#,
        r#"{"tokens_used": 6}"#,
    ),
    example(
        "Agent.Get",
        "By name",
        r#"{"id": "reviewer", "session_id": "sess_abc123"}"#,
        r#"{"id": "agent_abc123", "system_prompt": "You review changes. Look for bugs first.", "model_preference": "opus", "temperature": 0.5}"#,
    ),
    example(
        "Agent.Delete",
        "It is no longer needed",
        r#"{"id": "agent_abc123", "session_id": "sess_abc123"}"#,
        r#"{"tokens_used": 6}"#,
    ),
    example(
        "Skill.Delete",
        "It is no longer needed",
        r#"{"id": "skill_abc123", "session_id": "sess_abc123"}"#,
        r#"{"tokens_used": 6}"#,
    ),
    example(
        "Remediation.Record",
        "An error and its cure",
        r#"{"title": "Database not running", "problem": "connect to 127.0.0.1:5432 failed: Connection refused", "root_cause": "The container was stopped", "solution": "docker compose up -d db", "session_id": "sess_abc123"}"#,
        r#"{"id": "rem_abc123"}"#,
    ),
    example(
        "Remediation.Search",
        "The same error on another machine",
        r#"{"error": "connect to 10.0.0.7:6432 failed: Connection refused", "session_id": "sess_abc123"}"#,
        r#"{"remediations": [{"id": "rem_abc123", "title": "Database not running", "problem_preview": "connect to 127.0.0.1:5432 failed: Connection refused", "solution_preview": "docker compose up -d db", "confidence": 1.0}]}"#,
    ),
    example(
        "Session.End",
        "Done; keep what was learnt",
        r#"{"session_id": "sess_abc123", "outcome": "success", "distill": true}"#,
        r#"{"memories_extracted": 3}"#,
    ),
];

-- Tables as readers of the published specification know them: views of the journal and of the records of sessions, which get
-- names of their own.

ALTER TABLE agent_activities RENAME TO journal;
ALTER TABLE agent_sessions RENAME TO session_records;

CREATE VIEW agent_sessions AS
SELECT id,
       campaign_id,
       spec ->> 'festival_id' AS festival_id,
       spec ->> 'task_id' AS task_id,
       state ->> 'name' AS agent_name,
       provider,
       state ->> 'model' AS model,
       status,
       coalesce(state ->> '$.usage.input_tokens', 0) AS tokens_input,
       coalesce(state ->> '$.usage.output_tokens', 0) AS tokens_output,
       spec ->> 'working_dir' AS working_dir,
       created_at,
       state ->> 'started_at' AS started_at,
       ended_at,
       spec -> 'provider_config' AS config_json,
       coalesce(state ->> 'pid', 0) AS pid,
       last_activity_at,
       coalesce(state ->> 'error', '') AS error_message,
       coalesce(state ->> 'restart_count', 0) AS restart_count,
       parent_session_id
FROM session_records;

CREATE VIEW agent_activities (id, session_id, activity_type, content, tool_name, tool_call_id, success, created_at) AS
SELECT journal.id,
       session_records.id,
       CASE body ->> 'type'
           WHEN 'thinking_delta' THEN 'THINKING'
           WHEN 'text_delta' THEN 'TEXT'
           WHEN 'tool_started' THEN 'TOOL_CALL'
           WHEN 'tool_finished' THEN 'TOOL_RESULT'
           WHEN 'turn_ended' THEN 'COMPLETION'
           WHEN 'notice' THEN CASE body ->> 'level' WHEN 'error' THEN 'ERROR' ELSE 'STATUS' END
           WHEN 'status_changed' THEN 'STATUS'
           WHEN 'activity_reported' THEN upper(body ->> 'activity')
       END AS activity_type,
       CASE body ->> 'type'
           WHEN 'tool_started' THEN coalesce(nullif(body ->> 'title', ''), body ->> 'input')
           WHEN 'tool_finished' THEN body ->> 'output'
           WHEN 'notice' THEN body ->> 'message'
           WHEN 'status_changed' THEN (body ->> 'to') || ': ' || (body ->> 'message')
           WHEN 'turn_ended' THEN coalesce(nullif(body ->> 'text', ''), body ->> 'error')
           WHEN 'activity_reported' THEN body ->> 'content'
           ELSE body ->> 'text'
       END,
       coalesce(body ->> 'tool', ''),
       coalesce(body ->> 'call', ''),
       body ->> 'ok',
       at
FROM journal JOIN session_records ON session_records.key = journal.id >> 32
WHERE activity_type IS NOT NULL;

-- The published events of a session's life.
CREATE TRIGGER session_started AFTER UPDATE OF status ON session_records
WHEN NEW.status IN ('RUNNING', 'WORKING') AND OLD.status IN ('CREATED', 'STARTING')
BEGIN
    INSERT INTO events (campaign_id, festival_id, event_type, payload, source, created_at)
    VALUES (coalesce(NEW.campaign_id, ''), coalesce(NEW.spec ->> 'festival_id', ''), 'SESSION_STARTED',
            json_object('session_id', NEW.id, 'agent_name', NEW.state ->> 'name', 'provider', NEW.provider), 'daemon',
            coalesce(NEW.last_activity_at, NEW.created_at));
END;

CREATE TRIGGER session_stopped AFTER UPDATE OF status ON session_records
WHEN NEW.status IN ('STOPPED', 'FAILED') AND OLD.status IN ('RUNNING', 'WORKING', 'STOPPING')
BEGIN
    INSERT INTO events (campaign_id, festival_id, event_type, payload, source, created_at)
    VALUES (coalesce(NEW.campaign_id, ''), coalesce(NEW.spec ->> 'festival_id', ''), 'SESSION_STOPPED',
            json_object('session_id', NEW.id, 'agent_name', NEW.state ->> 'name', 'status', NEW.status,
                        'error', coalesce(NEW.state ->> 'error', '')),
            'daemon', coalesce(NEW.ended_at, NEW.last_activity_at, NEW.created_at));
END;

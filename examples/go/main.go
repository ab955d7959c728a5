// Starts an agent, follows it, answers one permission request, and goes on after a cut.
//
// Run it in a folder that is registered (obey campaign add .): go run main.go. It needs no key: the agent is the built-in
// scripted one, which does what its prompt says. For a real one, use the provider SESSION_PROVIDER_CLAUDE_CODE and a prompt
// of your own. It uses nothing but the standard library: every method of the .proto files can be called with JSON.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

const prompt = `List the folder. SCRIPT: [{"text":"I will list the folder. "},` +
	`{"tool":"Bash","input":{"command":"ls"},"ask":true,"result":"README.md"},{"text":"Done: one file."}]`

// A client of one daemon, over its Unix socket.
type client struct{ http http.Client }

// An entry of a session's journal.
type event struct {
	Seq  int    `json:"seq"`
	Type string `json:"type"`
	JSON string `json:"json"`
}

func connect() *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket())
	}
	return &client{http.Client{Transport: &http.Transport{DialContext: dial}}}
}

func socket() string {
	if path := os.Getenv("OBEY_SOCKET"); path != "" {
		return path
	}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		return filepath.Join(runtime, "obey", "daemon.sock")
	}
	return fmt.Sprintf("/tmp/obey-%d/daemon.sock", os.Getuid())
}

// Calls a method and returns its answer, which the caller closes.
func (c *client) open(method string, message any) io.ReadCloser {
	body, err := json.Marshal(message)
	check(err)
	request, err := http.NewRequest(http.MethodPost, "http://localhost/"+method, bytes.NewReader(body))
	check(err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/x-ndjson")
	answer, err := c.http.Do(request)
	check(err)
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(answer.Body)
		log.Fatalf("%s: %s %s", method, answer.Status, said)
	}
	return answer.Body
}

// Calls a method and reads its answer.
func (c *client) call(method string, message, into any) {
	body := c.open(method, message)
	defer body.Close()
	check(json.NewDecoder(body).Decode(into))
}

// Follows a session after a number until an event of a type; returns the last number.
func (c *client) follow(session string, after int, until string) int {
	body := c.open("obey.v1.EventService/ReadEvents", map[string]any{
		"session_id": session, "after_seq": after, "follow": true,
	})
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var found event
		check(json.Unmarshal(lines.Bytes(), &found))
		if found.Seq != after+1 {
			log.Fatal("numbers have no gaps")
		}
		after = found.Seq
		fmt.Printf("event %3d %s %s\n", found.Seq, found.Type, found.JSON)
		if found.Type == until {
			return after
		}
	}
	log.Fatalf("the session ended before %s: %v", until, lines.Err())
	return 0
}

func main() {
	obey := connect()
	campaign := campaignOfFolder(obey)
	var created struct{ Session struct{ ID string } }
	obey.call("obey.local.v1.LocalDaemonService/CreateSession", map[string]any{
		"campaign_id": campaign, "provider": "SESSION_PROVIDER_SCRIPTED",
		"provider_config": map[string]string{"permission_mode": "supervised"},
	}, &created)
	session := created.Session.ID
	fmt.Println("created  ", session)

	var sent struct{ Seq int }
	// The same key with the same prompt is one prompt, however often it is sent.
	key := fmt.Sprintf("example-%d", os.Getpid())
	obey.call("obey.v1.TurnService/Prompt", map[string]any{
		"session_id": session, "text": prompt, "client_key": key,
	}, &sent)
	last := obey.follow(session, sent.Seq-1, "request_opened")

	// The connection is gone; the agent waits. Another process could go on from here: all it needs is the number.
	obey = connect()
	var waiting struct {
		Requests []struct {
			ID        string
			ToolName  string `json:"tool_name"`
			InputJSON string `json:"input_json"`
		}
	}
	obey.call("obey.v1.RequestService/ListRequests", map[string]any{"session_id": session}, &waiting)
	request := waiting.Requests[0]
	fmt.Println("allowed  ", request.ToolName, request.InputJSON)
	obey.call("obey.v1.RequestService/AnswerPermission", map[string]any{
		"session_id": session, "request_id": request.ID, "decision": "DECISION_ALLOW_ONCE",
	}, &struct{}{})
	last = obey.follow(session, last, "turn_ended")
	obey.call("obey.local.v1.LocalDaemonService/StopSession", map[string]any{"session_id": session}, &struct{}{})
	fmt.Println("stopped   after event", last)
}

// Returns the id of the registered folder that contains the current one.
func campaignOfFolder(obey *client) string {
	folder, err := os.Getwd()
	check(err)
	folder, err = filepath.EvalSymlinks(folder)
	check(err)
	var known struct{ Campaigns []struct{ ID, Path string } }
	obey.call("obey.v1.CampaignService/ListCampaigns", map[string]any{}, &known)
	for _, campaign := range known.Campaigns {
		if strings.HasPrefix(folder+"/", strings.TrimRight(campaign.Path, "/")+"/") {
			return campaign.ID
		}
	}
	log.Fatalf("%s is in no registered folder; register it: obey campaign add .", folder)
	return ""
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

;;; emacs.el --- Drives `obey acp` from Emacs -*- lexical-binding: t; -*-

;; Uses the published acp.el, the library of agent-shell: greeting, session, a turn with one permission. Prints how it went.

(require 'acp)
(require 'map)
(require 'seq)

(defvar said "" "What the agent said.")
(defvar asked 0 "How often the agent asked for permission.")
(defvar ended nil "Why the turn ended.")

(defvar client
  (acp-make-client :command "obey" :command-params '("acp" "--provider" "scripted")
                   :context-buffer (current-buffer)))

(acp-subscribe-to-notifications
 :client client :buffer (current-buffer)
 :on-notification
 (lambda (notification)
   (let* ((update (map-nested-elt notification '(params update)))
          (text (map-nested-elt update '(content text))))
     (when (and text (equal (map-elt update 'sessionUpdate) "agent_message_chunk"))
       (setq said (concat said text))))))

(acp-subscribe-to-requests
 :client client :buffer (current-buffer)
 :on-request
 (lambda (request)
   (when (equal (map-elt request 'method) "session/request_permission")
     (setq asked (1+ asked))
     (let ((option (seq-find (lambda (one) (equal (map-elt one 'kind) "allow_once"))
                             (map-nested-elt request '(params options)))))
       (acp-send-response
        :client client
        :response (acp-make-session-request-permission-response
                   :request-id (map-elt request 'id) :option-id (map-elt option 'optionId)))))))

(defun call (request)
  "Send REQUEST and return its answer."
  (acp-send-request :client client :request request :sync t))

(let* ((greeting (call (acp-make-initialize-request :protocol-version 1 :read-text-file-capability t)))
       (session (map-elt (call (acp-make-session-new-request :cwd default-directory)) 'sessionId)))
  (acp-send-request
   :client client :buffer (current-buffer)
   :request (acp-make-session-prompt-request
             :session-id session
             :prompt `[((type . "text") (text . ,(getenv "OBEY_TEST_PROMPT")))])
   :on-success (lambda (answer) (setq ended (map-elt answer 'stopReason)))
   :on-failure (lambda (error &rest _) (setq ended (format "failed: %s" error))))
  (with-timeout (60 (setq ended "timeout"))
    (while (not ended) (accept-process-output nil 0.1)))
  (princ (format "protocol %s, ended %s, asked %d, said %s\n"
                 (map-elt greeting 'protocolVersion) ended asked said)))

(acp-shutdown :client client)

;;; emacs.el ends here

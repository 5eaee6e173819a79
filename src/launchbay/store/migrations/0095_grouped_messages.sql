-- Equal failures in the messages of a chat: the first one at once, those of the time after it in one message.
-- `failure` is set once a delivery has been compared, `joined_to` is the delivery whose message counts it.
ALTER TABLE webhook_deliveries ADD COLUMN failure text, ADD COLUMN joined_to text;
CREATE INDEX webhook_deliveries_joined ON webhook_deliveries (joined_to) WHERE joined_to IS NOT NULL;

CREATE TABLE webhook_failures (
    webhook_id   text NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    failure      text NOT NULL,
    -- Until when equal failures wait for the next message.
    until        timestamptz NOT NULL,
    -- The delivery that is that message, if there is one.
    follow_up_id text,
    PRIMARY KEY (webhook_id, failure)
);

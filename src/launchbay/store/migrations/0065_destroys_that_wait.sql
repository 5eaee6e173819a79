-- A destroy within its grace time is a schedule that people can take back. `undo_workflow` is what that runs then: `start` if the
-- instance was stopped, empty if there is nothing to run. Other schedules have null.

ALTER TABLE schedules ADD COLUMN undo_workflow text;

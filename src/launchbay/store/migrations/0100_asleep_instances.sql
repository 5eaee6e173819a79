-- What lists of the kernel read of sleep windows. The feature may change its table, and keeps this view.
CREATE VIEW asleep_instances AS
    SELECT instance_id FROM instance_sleeps WHERE is_asleep;

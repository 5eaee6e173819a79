#!/usr/bin/env bash
# Quartz 2.3.2 (libquartz2-java of Debian 12, OpenJDK 17)
# Expected: MON-FRI/2 means the same as 2-6/2: Monday, Wednesday and Friday. 1,15W means the 1st, and the weekday nearest to the 15th.
# Seen: after names, the step is dropped without an error, so it fires on every working day. In a list, W applies to the first number
# alone and the others are dropped: 1,15W is the weekday nearest to the 1st.
# Needs javac, and the jar files of the Debian packages libquartz2-java and libslf4j-java; it fetches both as files.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libquartz2-java=2.3.2-4 libslf4j-java 2>/dev/null
for package in ./*.deb; do dpkg-deb -x "$package" .; done
class_path=$(printf '%s:' usr/share/java/quartz2-2.3.2.jar usr/share/java/slf4j-api.jar usr/share/java/slf4j-nop.jar).
cat >Times.java <<'JAVA'
import java.text.SimpleDateFormat;
import java.util.Date;
import java.util.Locale;
import java.util.TimeZone;
import org.quartz.CronExpression;

public class Times {
    public static void main(String[] texts) throws Exception {
        SimpleDateFormat shown = new SimpleDateFormat("EEE-dd-MMM", Locale.ENGLISH);
        shown.setTimeZone(TimeZone.getTimeZone("UTC"));
        for (String text : texts) {
            CronExpression expression = new CronExpression(text);
            expression.setTimeZone(TimeZone.getTimeZone("UTC"));
            StringBuilder line = new StringBuilder(text + " |");
            Date at = new Date(1767261600000L); // 2026-01-01, 10:00 UTC
            for (int number = 0; number < 4; number++) {
                at = expression.getNextValidTimeAfter(at);
                line.append(" ").append(shown.format(at));
            }
            System.out.println(line);
        }
    }
}
JAVA
javac -cp "$class_path" Times.java
seen=$(java -cp "$class_path" Times "0 0 9 ? * 2-6/2" "0 0 9 ? * MON-FRI/2" "0 0 9 1,15W * ?")
echo "$seen"
diff <(echo "$seen") - <<'SEEN'
0 0 9 ? * 2-6/2 | Fri-02-Jan Mon-05-Jan Wed-07-Jan Fri-09-Jan
0 0 9 ? * MON-FRI/2 | Fri-02-Jan Mon-05-Jan Tue-06-Jan Wed-07-Jan
0 0 9 1,15W * ? | Mon-02-Feb Mon-02-Mar Wed-01-Apr Fri-01-May
SEEN

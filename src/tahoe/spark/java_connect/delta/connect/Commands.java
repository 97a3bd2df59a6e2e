package delta.connect;

import delta.Ask;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.CommandPlugin;

/** The commands of Delta's own that clients of Spark Connect send. Python: {@code connect_answers.run}. */
public class Commands implements CommandPlugin {
  public boolean process(byte[] message, SparkConnectPlanner planner) {
    return ((Boolean) Ask.answer(Ask.python.clientCommand(planner.session(), message))).booleanValue();
  }
}

package delta.connect;

import delta.Ask;
import java.util.Optional;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.RelationPlugin;

/** The relations of Delta's own that clients of Spark Connect send. Python: {@code connect_answers.plan}. */
public class Relations implements RelationPlugin {
  public Optional transform(byte[] message, SparkConnectPlanner planner) {
    return Optional.ofNullable((LogicalPlan) Ask.answer(Ask.python.clientRelation(planner.session(), planner, message)));
  }
}

package delta;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.command.RunnableCommand;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The base of {@link Command} and {@link Statement}: a runnable command without child plans, which Spark runs once, eagerly, and shows in
 * its UI. It is Java because it is a {@link LogicalPlan}.
 */
abstract class OurCommand extends LogicalPlan implements RunnableCommand {
  final String name;
  final Seq columns;

  /** @param columns the attributes of the result */
  OurCommand(String name, Seq columns) {
    this.name = name;
    this.columns = columns;
  }

  public String nodeName() { return name; }
  public Seq output() { return columns; }
  public Seq children() { return CollectionConverters.asScala(new ArrayList()).toSeq(); }
  public LogicalPlan withNewChildrenInternal(IndexedSeq children) { return this; }
  public Map metrics() { return (Map) Map$.MODULE$.empty(); }
  public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq patterns) { }

  public Seq nodePatterns() {
    ArrayList patterns = new ArrayList();
    patterns.add(TreePattern$.MODULE$.COMMAND());
    return CollectionConverters.asScala(patterns).toSeq();
  }

  public boolean canEqual(Object other) { return other.getClass() == getClass(); }
  public boolean equals(Object other) { return other == this; }
  public int hashCode() { return System.identityHashCode(this); }
}

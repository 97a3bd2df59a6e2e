package delta;

import java.util.ArrayList;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.command.RunnableCommand;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** A statement that Python runs instead of Spark: once, eagerly, shown in its UI, as Spark runs any command. */
public class Command extends LogicalPlan implements RunnableCommand {
  private final String name;
  private final LogicalPlan statement;

  public Command(String name, LogicalPlan statement) {
    this.name = name;
    this.statement = statement;
  }

  public Seq run(SparkSession session) { return (Seq) Ask.answer(Ask.python.run(session, statement)); }
  public Seq output() { return statement.output(); }
  public Seq children() { return CollectionConverters.asScala(new ArrayList()).toSeq(); }
  public LogicalPlan withNewChildrenInternal(IndexedSeq children) { return this; }
  public Map metrics() { return (Map) Map$.MODULE$.empty(); }
  public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq patterns) { }

  public Seq nodePatterns() {
    ArrayList patterns = new ArrayList();
    patterns.add(TreePattern$.MODULE$.COMMAND());
    return CollectionConverters.asScala(patterns).toSeq();
  }

  public String nodeName() { return name; }
  public int productArity() { return 2; }
  public Object productElement(int n) { return n == 0 ? (Object) name : statement; }
  public boolean canEqual(Object other) { return other instanceof Command; }
  public boolean equals(Object other) { return other == this; }
  public int hashCode() { return System.identityHashCode(this); }
}

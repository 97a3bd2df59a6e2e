package delta.connect;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan$;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.QueryExecution;
import scala.Function1;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Partial function over expressions: replaces columns of a client's DataFrames of a table with their names, as {@code delta.Columns} does for
 * DataFrames of this driver, and columns of the source of a MERGE with its attributes. A client's column names its DataFrame by the id of a
 * plan, which a command's own plans do not have.
 */
public class ClientColumns extends AbstractPartialFunction {
  private static final TreeNodeTag PLAN_ID = LogicalPlan$.MODULE$.PLAN_ID_TAG();

  private final List plans;
  private final List qualifier;
  private final Dataset source;

  private ClientColumns(List plans, List qualifier, Dataset source) {
    this.plans = plans;
    this.qualifier = qualifier;
    this.source = source;
  }

  /**
   * @param plans the ids of the plans that are the table, as text
   * @param qualifier the table's alias, as parts of a name; may be empty
   * @param source the source of a MERGE, or null
   */
  public static Expression resolved(Expression given, List plans, List qualifier, Dataset source) {
    return (Expression) given.transform(new ClientColumns(plans, qualifier, source));
  }

  public boolean isDefinedAt(Object node) {
    Option plan = plan(node);
    return plan.isDefined() && (isOwn(plan) || ofSource(node).isDefined());
  }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    if (!isOwn(plan(node))) return ofSource(node).get();
    UnresolvedAttribute column = (UnresolvedAttribute) node;
    column.unsetTagValue(PLAN_ID); // Spark keeps a node that equals its replacement, and copies the tags of one that does not
    List parts = new ArrayList(qualifier);
    parts.addAll(CollectionConverters.asJava(column.nameParts()));
    return new UnresolvedAttribute(CollectionConverters.asScala(parts).toSeq());
  }

  private static Option plan(Object node) {
    return node instanceof UnresolvedAttribute ? ((UnresolvedAttribute) node).getTagValue(PLAN_ID) : Option.empty();
  }

  private boolean isOwn(Option plan) { return plans.contains(String.valueOf(plan.get())); }

  private Option ofSource(Object node) {
    if (source == null) return Option.empty();
    QueryExecution query = source.queryExecution();
    return query.analyzed().resolve(((UnresolvedAttribute) node).nameParts(), query.sparkSession().sessionState().analyzer().resolver());
  }
}
